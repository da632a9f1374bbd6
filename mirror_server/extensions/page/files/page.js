// Shows the page. Its components are those of the notebooks; their sources are in mirror_sdk/widgets/ui.

import { mountPage } from "./ui.js";

mountPage(document.getElementById("page"));
