// Light and dark: the reader's system decides until the button does.

const root = document.documentElement;
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();
const inks = new Map();
let chosen = null;

export const theme = () => root.dataset.theme;

/** A color of style.css by its variable's name. */
export function ink(name) {
    if (!inks.has(name)) inks.set(name, getComputedStyle(root).getPropertyValue(`--${name}`).trim());
    return inks.get(name);
}

/** Call `react` whenever the colors have changed. */
export const onTheme = (react) => listeners.add(react);

function apply(name) {
    if (root.dataset.theme === name) return;
    root.dataset.theme = name;
    inks.clear();
    listeners.forEach((react) => react());
}

const follow = () => apply(chosen ?? (system.matches ? "dark" : "light"));

export function toggleTheme() {
    chosen = theme() === "dark" ? "light" : "dark";
    follow();
}

follow();
system.addEventListener("change", follow);
window.addEventListener("beforeprint", () => apply("light"));
window.addEventListener("afterprint", follow);
