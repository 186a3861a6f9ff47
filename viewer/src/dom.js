// Elements: all text goes in as text nodes, never as markup.

/** An element with attributes (`onclick` and the like are listeners) and children (nodes or text; null is left out). */
export function h(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === "function") node.addEventListener(name.slice(2), value);
        else if (value === true) node.setAttribute(name, "");
        else if (value !== false && value != null) node.setAttribute(name, value);
    }
    node.append(...children.flat().filter((child) => child != null));
    return node;
}

/** An element of a drawing. */
export function svg(tag, attributes = {}, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
}

let made = 0;

/** A labelled control: `node` to place, `control` to read. */
function labelled(label, control, className = "control") {
    control.id = `control-${++made}`;
    return {node: h("div", {class: className}, h("label", {for: control.id}, label), control), control};
}

/** A labelled select over texts; `change` receives the index chosen. */
export function choice(label, texts, change) {
    const options = texts.map((text, i) => h("option", {value: i}, text));
    const select = h("select", {onchange: () => change(select.selectedIndex)}, options);
    return labelled(label, select);
}

/** A labelled checkbox; `change` receives whether it is checked. */
export function toggle(label, checked, change) {
    const box = h("input", {type: "checkbox", onchange: () => change(box.checked)});
    box.checked = checked;
    return labelled(label, box, "control check");
}

/** A labelled whole number in 0 … count − 1; `change` receives it. */
export function whole(label, count, change) {
    const input = h("input", {type: "number", min: 0, max: count - 1, step: 1, oninput: () => {
        const value = input.valueAsNumber;
        if (Number.isInteger(value) && value >= 0 && value <= Number(input.max)) change(value);
    }});
    return labelled(label, input);
}

export function button(text, action, attributes = {}) {
    return h("button", {type: "button", onclick: action, ...attributes}, text);
}

/** A section with a heading and an optional sentence below it. */
export function section(id, title, sentence = null) {
    return h("section", {id, "aria-labelledby": `${id}-title`},
        h("h2", {id: `${id}-title`}, title), sentence && h("p", {class: "lead"}, sentence));
}

/** A canvas with a sharp 2-D context of `width` × `height` CSS pixels, cleared. */
export function sharp(canvas, width, height) {
    const ratio = Math.min(window.devicePixelRatio || 1, 3);
    const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return context;
}

/** Call `react` now and whenever the element's width changes. */
export function watchWidth(element, react) {
    let width = -1;
    new ResizeObserver(() => {
        if (element.clientWidth !== width && element.clientWidth > 0) react((width = element.clientWidth));
    }).observe(element);
}
