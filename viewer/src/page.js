// The page of `calm report`: reads the content, builds the sections that it has data for, and shows them.
import {errorsSection, trainingSection} from "./curves.js";
import {h} from "./dom.js";
import {errorMapSection} from "./errormap.js";
import {head} from "./head.js";
import {kernelsSection} from "./kernels.js";
import {pathsSection} from "./paths.js";
import {configSection, footer, sizesSection, tablesSection} from "./tables.js";
import {tokensSection} from "./tokens.js";
import {Viewer} from "./viewer.js";

function viewerSection(content) {
    if (!content.samples.length) return null;
    const viewer = new Viewer(content);
    return {node: viewer.node, viewer};
}

/** Leave the browser a moment to draw and to answer the reader. */
const breath = () => new Promise((resolve) => setTimeout(resolve, 0));

async function start() {
    if (typeof DecompressionStream === "undefined") {
        document.body.append(h("p", {class: "notice"}, "This browser is too old to read the report: it has no DecompressionStream."));
        return;
    }
    const content = JSON.parse(document.getElementById("content").textContent);
    const parts = [viewerSection, errorsSection, errorMapSection, trainingSection, pathsSection, tokensSection, kernelsSection,
        sizesSection, tablesSection, configSection].map((make) => make(content)).filter(Boolean);
    document.body.append(h("div", {class: "page"}, head(content, parts.map(({node}) => node)),
        h("main", {}, parts.map(({node}) => node)), footer()));
    const viewer = parts[0].viewer;
    expose(content, viewer, (async () => {
        await viewer?.ready;
        for (const {build} of parts) {
            await breath();
            await build?.();
        }
    })());
    await viewer?.ready;
}

/**
 * window.calmReport, for tests and the curious; nothing in the page depends on it:
 *   ready     resolves when the viewer shows its first frame, complete when every section is built
 *   state     {frame, field, sample, playing, moving, drawn, total, drawings, zoom, overlay, reading}: `drawn` of `total` points
 *             per panel in the last of `drawings` drawings; reading: {index, x, truth, prediction, error} or null
 *   content   the content as parsed
 */
function expose(content, viewer, complete) {
    const ready = viewer ? viewer.ready : Promise.resolve();
    window.calmReport = {
        content, complete, ready,
        get state() {
            if (!viewer) return null;
            const {sample, field, overlay} = viewer.state;
            return {
                sample, field, overlay, frame: viewer.player.frame, playing: viewer.player.playing, moving: viewer.motion.moving,
                drawn: viewer.drawn, total: viewer.picture?.count ?? 0, drawings: viewer.pictures?.stage?.drawings ?? 0,
                zoom: viewer.camera.zoom, reading: viewer.reading.last,
            };
        },
    };
}

start();
