import "./prefetch";
import { render } from "preact";
import { App } from "./app";
import { bringCode } from "./code-ahead";
import { followLinks, goToAsked, place } from "./router";
import { stream } from "./stream";
import "./style/base.css";
import "./style/parts.css";
import "./style/screens.css";

goToAsked();
followLinks();
stream.start(place().path.startsWith("/jobs/"));
render(<App />, document.getElementById("page")!);
void bringCode();
