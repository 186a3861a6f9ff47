// Sections of words and numbers: latent size, tables, config, licenses.
import {h, section} from "./dom.js";
import {count, number} from "./format.js";

const NUMBER = /^[−+-]?[\d.]/; // also "0.1 ± 0.2" and "12 s"

/** How many numbers the latent state has against the physical one. */
export function sizesSection({sizes}) {
    if (!sizes) return null;
    const node = section("sizes", "Latent size against physical size");
    const total = ({points, channels}) => points * channels;
    const most = Math.max(total(sizes.physical), total(sizes.latent));
    const bar = (name, size, points) => h("div", {class: `bar ${name}`}, h("span", {class: "name"}, name),
        h("span", {class: "track"}, h("span", {class: "filled", style: `width: ${Math.max(0.4, (100 * total(size)) / most)}%`})),
        h("span", {class: "size"}, `${count(size.points)} ${points} × ${count(size.channels)} = ${count(total(size))}`));
    const ratio = total(sizes.physical) / total(sizes.latent);
    const words = Math.abs(ratio - 1) < 0.005 ? "A frame of the latent state holds as many numbers as the physical one."
        : ratio >= 1 ? `A frame of the latent state holds ${number(ratio)} times fewer numbers than the physical one.`
        : `A frame of the latent state holds ${number(1 / ratio)} times more numbers than the physical one.`;
    node.append(h("div", {class: "card"}, h("p", {}, words),
        bar("physical", sizes.physical, "points"), bar("latent", sizes.latent, "tokens")));
    return {node};
}

/** All tables; each scrolls within its own box where it is too wide. */
export function tablesSection({tables}) {
    if (!tables.length) return null;
    const node = section("tables", "Numbers");
    const place = h("div", {class: "tables"});
    node.append(place);
    for (const {title, columns, rows} of tables) {
        const numeric = (i) => i > 0 && rows.every((row) => !row[i] || NUMBER.test(row[i]));
        const head = h("tr", {}, columns.map((column, i) => h("th", {scope: "col", class: numeric(i) ? "number" : null}, column)));
        const cell = (text, i) => (i ? h("td", {class: NUMBER.test(text) ? "number" : null}, text) : h("th", {scope: "row"}, text));
        const body = rows.map((row) => h("tr", {}, row.map(cell)));
        const table = h("table", {}, h("caption", {}, title), h("thead", {}, head), h("tbody", {}, body));
        place.append(h("div", {class: "card scroll", tabindex: 0, role: "region", "aria-label": title}, table));
    }
    return {node};
}

export function configSection({config}) {
    if (!config) return null;
    const node = section("config", "Config");
    node.append(h("details", {class: "card"},
        h("summary", {}, "The config of this run, with all defaults filled in"), h("pre", {tabindex: 0}, config)));
    return {node};
}

export const footer = () => h("footer", {}, h("p", {},
    "Made by calm-pde. This file is complete: it loads nothing from the network. It contains three.js (© three.js authors) and " +
    "uPlot (© Leon Sorokin), both under the MIT license."));
