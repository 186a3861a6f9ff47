// The query points of every layer: where they started, where they ended, and the ways between.
import {Camera} from "./camera.js";
import {decodeOnce} from "./decode.js";
import {choice, h, section, sharp, watchWidth} from "./dom.js";
import {count, ticks} from "./format.js";
import {drawDot, drawFrame, FONT, margins} from "./overlay.js";
import {Picture} from "./picture.js";
import {planeName, planesOf} from "./plane.js";
import {ink, onTheme} from "./theme.js";

const FAINT = 5000; // mesh points drawn behind

export function pathsSection(content) {
    if (!content.layers.length) return null;
    const node = section("queries", "Query points",
        content.dim === 1 ? "Positions of the query points of each layer over the epochs of the training."
            : "Query points of each layer: hollow where they started, filled where the training left them.");
    const grid = h("div", {class: "grid small"});
    const state = {plane: 0};
    const planes = planesOf(content.axes);
    const drawings = [];
    if (planes.length > 1) {
        node.append(h("div", {class: "controls"}, choice("Seen in the plane", planes.map((plane) => planeName(content.axes, plane)), (i) => {
            state.plane = i;
            drawings.forEach((draw) => draw());
        }).node));
    }
    node.append(grid);
    const build = async () => {
        const mesh = content.dim > 1 ? (await decodeOnce(content.meshes[0].points)).raw : null;
        for (const layer of content.layers) {
            const path = await decodeOnce(layer.path);
            const [snapshots, queries] = path.shape;
            const canvas = h("canvas", {role: "img", "aria-label": `query points of ${layer.name}`});
            const words = `${count(queries)} query points${layer.fixed ? ", fixed" : snapshots < 3 ? ", start and end" : ""}`;
            grid.append(h("figure", {class: "card"}, h("figcaption", {}, layer.name, h("small", {}, ` ${words}`)), canvas));
            const draw = () => canvas.clientWidth && (content.dim === 1 ? drawCourse(canvas, content, layer, path)
                : drawPaths(canvas, content, path, mesh, planes[state.plane]));
            drawings.push(draw);
            watchWidth(canvas, draw);
            onTheme(draw);
            draw();
        }
    };
    return {node, build};
}

/** Start, end and path of each query in two of the coordinates, over the points of the mesh. */
function drawPaths(canvas, content, path, mesh, plane) {
    const [snapshots, queries, dim] = path.shape;
    const at = (snapshot, query, axis) => path.raw[(snapshot * queries + query) * dim + axis];
    const corners = [content.lower, content.upper].flatMap((corner) => plane.map((axis) => corner[axis]));
    const picture = new Picture({points: corners, dim: 2, axes: plane.map((axis) => content.axes[axis])});
    const period = plane.map((axis) => (content.periodic[axis] ? content.upper[axis] - content.lower[axis] : Infinity));
    const room = margins(picture), width = canvas.clientWidth - room.left - room.right;
    const [ex, ey] = picture.extent, height = Math.round(Math.min(420, Math.max(80, (width * ey) / ex)));
    const context = sharp(canvas, canvas.clientWidth, height + room.top + room.bottom);
    const lens = new Camera().lens(picture, width, height);
    const place = (x, y) => lens.place(picture.position([x, y]));
    context.translate(room.left, room.top);
    drawFrame(context, picture, lens);
    context.fillStyle = ink("faint");
    const stride = Math.max(1, Math.ceil(mesh.length / dim / FAINT));
    for (let i = 0; i < mesh.length / dim; i += stride) {
        const [x, y] = place(mesh[i * dim + plane[0]], mesh[i * dim + plane[1]]);
        context.fillRect(x - 0.5, y - 0.5, 1, 1);
    }
    context.strokeStyle = ink("accent");
    context.globalAlpha = queries > 300 ? 0.35 : 0.6;
    context.beginPath();
    for (let query = 0; query < queries; query++) {
        for (let s = 0; s < snapshots; s++) {
            // a point that leaves a periodic domain comes back on the other side: no line across
            const crosses = s === 0 || plane.some((axis, k) => Math.abs(at(s, query, axis) - at(s - 1, query, axis)) > period[k] / 2);
            const [x, y] = place(at(s, query, plane[0]), at(s, query, plane[1]));
            if (crosses) context.moveTo(x, y);
            else context.lineTo(x, y);
        }
    }
    context.stroke();
    context.globalAlpha = 1;
    const radius = queries > 600 ? 1.2 : queries > 150 ? 2 : 3;
    const dots = (snapshot, colors) => {
        for (let query = 0; query < queries; query++) {
            drawDot(context, ...place(at(snapshot, query, plane[0]), at(snapshot, query, plane[1])), radius, colors);
        }
    };
    dots(0, {fill: "transparent", edge: ink("muted")});
    dots(snapshots - 1, {fill: ink("query"), edge: ink("card")});
}

/** Positions on the line (upward) over the epochs (to the right). */
function drawCourse(canvas, content, layer, path) {
    const [snapshots, queries] = path.shape;
    const width = canvas.clientWidth, height = 240, left = 44, bottom = 34;
    const context = sharp(canvas, width, height);
    const epochs = layer.epochs.length === snapshots ? layer.epochs : Array.from({length: snapshots}, (_, i) => i);
    const [e0, e1] = [epochs[0], epochs.at(-1)], [x0, x1] = [content.lower[0], content.upper[0]];
    const right = (epoch) => left + ((epoch - e0) / (e1 - e0 || 1)) * (width - left - 10);
    const up = (x) => height - bottom - ((x - x0) / (x1 - x0)) * (height - bottom - 10);
    context.font = FONT;
    context.fillStyle = ink("muted");
    context.strokeStyle = ink("line-strong");
    context.strokeRect(left - 0.5, 9.5, width - left - 9, height - bottom - 9);
    context.textAlign = "center";
    for (const {value, text} of ticks(e0, e1, Math.max(2, width / 90))) context.fillText(text, right(value), height - bottom + 15);
    context.fillText("epoch", (left + width) / 2, height - 4);
    context.textAlign = "right";
    for (const {value, text} of ticks(x0, x1, 5)) context.fillText(text, left - 5, up(value) + 4);
    context.fillText(content.axes[0], 12, height / 2);
    context.strokeStyle = ink("accent");
    context.globalAlpha = queries > 100 ? 0.4 : 0.75;
    const period = content.periodic[0] ? x1 - x0 : Infinity;
    context.beginPath();
    for (let query = 0; query < queries; query++) {
        for (let s = 0; s < snapshots; s++) {
            const x = path.raw[s * queries + query];
            if (s && Math.abs(x - path.raw[(s - 1) * queries + query]) <= period / 2) context.lineTo(right(epochs[s]), up(x));
            else context.moveTo(right(epochs[s]), up(x));
        }
    }
    context.stroke();
    context.globalAlpha = 1;
    for (let query = 0; query < queries; query++) {
        drawDot(context, right(e0), up(path.raw[query]), 2, {fill: "transparent", edge: ink("muted")});
        drawDot(context, right(e1), up(path.raw[(snapshots - 1) * queries + query]), 2.2);
    }
}
