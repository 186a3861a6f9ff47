// Color maps: perceptually uniform and safe for color-blind readers, as tables of 256 colors.
import {theme} from "./theme.js";

export const LEVELS = 256;

// viridis at seventeen even places
const SEQUENTIAL = ("440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73 5ec962 84d44b " +
    "addc30 d8e219 fde725").split(" ").map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));

function sequential(position) {
    const place = position * (SEQUENTIAL.length - 1);
    const i = Math.min(Math.floor(place), SEQUENTIAL.length - 2);
    return SEQUENTIAL[i].map((from, channel) => from + (place - i) * (SEQUENTIAL[i + 1][channel] - from));
}

/** sRGB of a color in OKLCH, the space in which equal steps look equal. */
function oklch(lightness, chroma, hue) {
    const a = chroma * Math.cos((hue * Math.PI) / 180), b = chroma * Math.sin((hue * Math.PI) / 180);
    const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
    const linear = [
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
    ];
    const curve = (c) => (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055);
    return linear.map((c) => 255 * curve(Math.min(1, Math.max(0, c))));
}

/** Blue below zero, red above, equally light on both sides. */
function diverging(position) {
    const away = Math.abs(2 * position - 1);
    return oklch(0.97 - 0.55 * away ** 1.15, 0.165 * away ** 0.75, position < 0.5 ? 255 : 28);
}

/** From the background to a strong orange, so that no error is no ink. */
const error = {
    light: (position) => oklch(0.985 - 0.565 * position, 0.008 + 0.135 * Math.sin((position * Math.PI) / 1.75), 43),
    dark: (position) => oklch(0.235 + 0.635 * position, 0.005 + 0.132 * Math.sin((position * Math.PI) / 1.6), 55),
};

function table(color) {
    const bytes = new Uint8Array(4 * LEVELS);
    for (let i = 0; i < LEVELS; i++) bytes.set([...color(i / (LEVELS - 1)).map(Math.round), 255], 4 * i);
    return bytes;
}

const tables = new Map();

/** The table of a map ("sequential", "diverging", "error") in the present theme: RGBA bytes. */
export function colorTable(name) {
    const key = name === "error" ? `error ${theme()}` : name;
    if (!tables.has(key)) tables.set(key, table({sequential, diverging, error: error[theme()]}[name]));
    return tables.get(key);
}

/** A CSS color at a position in [0, 1]. */
export function colorAt(name, position) {
    const i = 4 * Math.round(Math.min(1, Math.max(0, position)) * (LEVELS - 1));
    return `rgb(${colorTable(name).subarray(i, i + 3).join(" ")})`;
}

/** Whether a range has both signs to speak of; a trace of the other sign keeps the sequential map. */
export const isSigned = (low, high) => low < 0 && high > 0 && Math.min(-low, high) > 0.02 * Math.max(-low, high);

/** The range to show: around zero where signed, and never empty. */
export function paddedRange(low, high, signed) {
    if (signed) {
        const size = Math.max(-low, high) || 1;
        return [-size, size];
    }
    return high > low ? [low, high] : [low, low + (Math.abs(low) || 1) * 1e-3];
}
