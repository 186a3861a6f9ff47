// The head of the report: what it is about, the headline numbers, the facts.
import {button, h} from "./dom.js";
import {number, withSpread} from "./format.js";
import {onTheme, theme, toggleTheme} from "./theme.js";

function themeButton() {
    const node = button("", toggleTheme, {class: "theme"});
    const say = () => (node.textContent = theme() === "dark" ? "Light colors" : "Dark colors");
    onTheme(say);
    say();
    return node;
}

const figure = (value, words, className = "") => h("div", {class: `figure ${className}`}, h("strong", {}, value), h("span", {}, words));

function headline({error, spread, metric, baseline, baseline_kind, seconds, solver_seconds, speedup, samples, split}) {
    const over = `over ${samples} ${split} sample${samples === 1 ? "" : "s"}`;
    const times = (value) => `${value >= 10 ? Math.round(value).toLocaleString("en-US") : number(value)} ×`;
    const parts = [figure(withSpread(error, spread), `${metric} error ${over}`, "first")];
    if (baseline != null) parts.push(figure(number(baseline), `${metric} error of ${baseline_kind}`));
    if (speedup != null) {
        parts.push(figure(times(speedup), `as fast as the solver (${seconds_(seconds)} against ${seconds_(solver_seconds)} per sample)`));
    } else if (seconds != null) parts.push(figure(seconds_(seconds), "per sample"));
    return h("div", {class: "headline"}, parts);
}

const seconds_ = (value) => (value == null ? "?" : value < 1 ? `${number(1000 * value)} ms` : `${number(value)} s`);

/** The header element; `sections` are linked from it. */
export function head(content, sections) {
    const links = sections.map((node) => h("li", {}, h("a", {href: `#${node.id}`}, node.querySelector("h2").textContent)));
    const facts = content.facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));
    return h("header", {},
        h("div", {class: "top"}, h("p", {class: "kind"}, `CALM-PDE report · ${content.task}`), themeButton()),
        h("h1", {}, content.title),
        headline(content.headline),
        h("dl", {class: "facts"}, facts),
        h("nav", {"aria-label": "Sections"}, h("ul", {}, links)));
}
