import { render } from "preact";
import { App } from "./app";
import { followLinks } from "./router";
import { stream } from "./stream";
import "./style/base.css";
import "./style/parts.css";
import "./style/screens.css";

followLinks();
stream.start();
render(<App />, document.getElementById("page")!);
