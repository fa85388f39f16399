import "./prefetch";
import { render } from "preact";
import { App } from "./app";
import { followLinks, place } from "./router";
import { stream } from "./stream";
import "./style/base.css";
import "./style/parts.css";
import "./style/screens.css";

followLinks();
stream.start(place().path.startsWith("/jobs/"));
render(<App />, document.getElementById("page")!);
