// Where the errors are: |prediction − truth| averaged over samples and frames, on the mesh.
import {chart} from "./charts.js";
import {decode, decodeOnce, valueAt} from "./decode.js";
import {choice, h, section} from "./dom.js";
import {number, withUnit} from "./format.js";
import {drawMarker} from "./overlay.js";
import {looks} from "./picture.js";
import {Stage} from "./stage.js";

export function errorMapSection(content) {
    const map = content.error_map;
    if (!map) return null;
    const node = section("error-map", "Where the error is", "The error averaged over all samples and times.");
    const card = h("div", {class: "card"});
    node.append(card);
    return {node, build: () => (content.dim === 1 ? curves(content, map, card) : picture(content, map, card))};
}

async function curves(content, map, card) {
    const points = (await decodeOnce(content.meshes[map.mesh].points)).raw;
    const order = [...points.keys()].sort((a, b) => points[a] - points[b]);
    for (const [i, field] of content.fields.entries()) {
        const values = await decode(map.fields[i]);
        chart(card, {x: content.axes[0], y: `mean |error| of ${withUnit(field.name, field.unit)}`, height: 200,
            data: [order.map((k) => points[k]), order.map((k) => valueAt(values, k))], series: [{label: "mean error", color: "error"}],
            extra: {scales: {y: {range: (plot, low, high) => [0, 1.05 * high || 1]}}}});
    }
}

async function picture(content, map, card) {
    const state = {field: 0, look: 0};
    const options = looks(content.meshes[map.mesh], content.axes);
    const controls = h("div", {class: "controls"},
        content.fields.length > 1 ? choice("Field", content.fields.map(({name}) => name), (i) => show({field: i})).node : null,
        options.length > 1 ? choice("Drawn as", options.map(({name}) => name), (i) => show({look: i})).node : null);
    const place = h("div", {class: "single"});
    const reading = h("p", {class: "status"}, "Move the pointer over the picture to read a value.");
    if (controls.children.length) card.append(controls);
    card.append(place, reading);
    let values, marked = null;
    const stage = Stage.open(place, ["Mean error"], {hover: (x, y) => {
        const i = stage.nearest(x, y), {picture} = stage;
        marked = Array.from(picture.positions.subarray(3 * i, 3 * i + 3));
        const at = picture.axes.map((axis, k) => `${axis} = ${number(picture.origin[k] + marked[k] * picture.scale[k])}`);
        const value = number(valueAt(values, picture.stored(i)));
        reading.textContent = `${at.join(", ")}: mean error ${value} ${content.fields[state.field].unit}`;
        stage.invalidate();
    }});
    if (!stage) return;
    stage.overlay = (context, lens) => marked && drawMarker(context, ...lens.place(marked));

    async function show(change) {
        Object.assign(state, change);
        if ("look" in change) [marked] = [null, stage.camera.reset()];
        values = await decodeOnce(map.fields[state.field]);
        stage.setPicture(await options[state.look].picture());
        stage.setChannels(values, null);
        const field = content.fields[state.field];
        stage.setPanel(0, {weight: [1, 0], range: [0, values.low + values.span || 1e-12], map: "error",
            label: `mean |error| of ${withUnit(field.name, field.unit)}`});
        stage.draw();
    }
    await show({});
}
