// Color bars: the map, ticks and what is measured.
import {colorAt} from "./colors.js";
import {h, sharp} from "./dom.js";
import {number, ticks} from "./format.js";
import {FONT} from "./overlay.js";
import {ink, theme} from "./theme.js";

const HEIGHT = 40, SIDE = 14, THICK = 10, STOPS = 48;

export class ColorBar {
    constructor() {
        this.node = h("canvas", {class: "colorbar", role: "img"});
    }

    draw(map, [low, high], label) {
        const width = this.node.clientWidth;
        const drawn = [map, low, high, label, width, theme(), window.devicePixelRatio].join();
        if (!width || drawn === this.drawn) return;
        this.drawn = drawn;
        const context = sharp(this.node, width, HEIGHT);
        const length = width - 2 * SIDE;
        const gradient = context.createLinearGradient(SIDE, 0, SIDE + length, 0);
        for (let i = 0; i <= STOPS; i++) gradient.addColorStop(i / STOPS, colorAt(map, i / STOPS));
        context.fillStyle = gradient;
        context.fillRect(SIDE, 0, length, THICK);
        context.strokeStyle = ink("line-strong");
        context.strokeRect(SIDE - 0.5, 0.5, length + 1, THICK);
        context.fillStyle = ink("muted");
        context.font = FONT;
        context.textAlign = "center";
        context.textBaseline = "top";
        context.beginPath();
        let free = 0;
        for (const {value, text} of ticks(low, high, Math.max(2, length / 70))) {
            const x = SIDE + ((value - low) / (high - low)) * length;
            context.moveTo(x, THICK);
            context.lineTo(x, THICK + 3);
            const half = context.measureText(text).width / 2;
            const middle = Math.min(Math.max(x, half + 1), width - half - 1);
            if (middle - half < free) continue;
            free = middle + half + 6;
            context.fillText(text, middle, THICK + 4);
        }
        context.stroke();
        context.fillText(label, width / 2, THICK + 17, width - 4);
        this.node.setAttribute("aria-label", `color scale of ${label} from ${number(low)} to ${number(high)}`);
    }
}
