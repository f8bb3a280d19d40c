/** The dashboard's first code: signs in if a session is there, and shows the page of the address. */
import { render } from "preact";
import { App } from "./shell/app.tsx";

const root = document.getElementById("app");
if (root !== null) render(<App />, root);
