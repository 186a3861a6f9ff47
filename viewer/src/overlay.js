// What is drawn over a picture: its frame with ticks, the box in space, markers.
import {ticks} from "./format.js";
import {ink} from "./theme.js";

export const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

/** Room around the drawn area, in pixels: ticks and names stand there. */
export const margins = (picture) => (picture.dim === 3 ? {left: 4, right: 4, top: 4, bottom: 4}
    : {left: 44, right: 8, top: 6, bottom: 32});

/** The frame of a picture in the plane, with ticks in its coordinates. The context's origin is the area's corner. */
export function drawFrame(context, picture, lens) {
    const {width, height} = lens;
    const coordinate = (axis, position) => picture.origin[axis] + position * picture.scale[axis];
    const [u0, v0] = lens.under(0, height), [u1, v1] = lens.under(width, 0);
    context.strokeStyle = ink("line-strong");
    context.fillStyle = ink("muted");
    context.font = FONT;
    context.lineWidth = 1;
    context.strokeRect(0.5, 0.5, width - 1, height - 1);
    context.beginPath();
    context.textAlign = "center";
    context.textBaseline = "top";
    let free = -Infinity;
    for (const {value, text} of ticks(coordinate(0, u0), coordinate(0, u1), Math.max(2, width / 70))) {
        const [x] = lens.place(picture.position([value, 0]));
        context.moveTo(x, height);
        context.lineTo(x, height + 3);
        const half = context.measureText(text).width / 2;
        if (x - half < free || x + half > width + 7) continue;
        free = x + half + 6;
        context.fillText(text, x, height + 5);
    }
    context.fillText(picture.axes[0], width / 2, height + 18);
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const {value, text} of ticks(coordinate(1, v0), coordinate(1, v1), Math.max(2, height / 50))) {
        const [, y] = lens.place(picture.position([0, value]));
        context.moveTo(-3, y);
        context.lineTo(0, y);
        if (y > 4 && y < height + 2) context.fillText(shortened(context, text, 34), -5, Math.max(6, y));
    }
    context.stroke();
    context.save();
    context.translate(-38, height / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(picture.axes[1], 0, 0);
    context.restore();
}

const shortened = (context, text, width) => {
    while (context.measureText(text).width > width && text.length > 2) text = `${text.slice(0, -2)}…`;
    return text;
};

/** The box around a picture in space, the names of its axes at three of its edges. */
export function drawBox(context, picture, lens) {
    const corner = (bits) => picture.extent.map((size, axis) => ((bits >> axis) & 1 ? size / 2 : -size / 2));
    const corners = Array.from({length: 8}, (_, bits) => lens.place(corner(bits)));
    context.strokeStyle = ink("line-strong");
    context.lineWidth = 1;
    context.beginPath();
    for (let bits = 0; bits < 8; bits++) {
        for (let axis = 0; axis < 3; axis++) {
            if ((bits >> axis) & 1) continue;
            context.moveTo(...corners[bits]);
            context.lineTo(...corners[bits | (1 << axis)]);
        }
    }
    context.stroke();
    context.fillStyle = ink("muted");
    context.font = FONT;
    context.textAlign = "center";
    context.textBaseline = "middle";
    picture.axes.forEach((name, axis) => {
        // of the four edges along this axis the lowest on the screen, or the leftmost if they stand upright
        const edges = [0, 1, 2, 3].map((pair) => {
            const others = [0, 1, 2].filter((other) => other !== axis);
            const bits = ((pair & 1) << others[0]) | ((pair >> 1) << others[1]);
            return lens.place(corner(bits).map((place, other) => (other === axis ? 0 : place)));
        });
        const [low, high] = [-1, 1].map((side) => lens.place([0, 1, 2].map((other) => (other === axis ? side : 0))));
        const upright = Math.abs(high[1] - low[1]) > Math.abs(high[0] - low[0]);
        const [x, y] = edges.reduce((a, b) => ((upright ? b[0] < a[0] : b[1] > a[1]) ? b : a));
        const [dx, dy] = [x - lens.width / 2, y - lens.height / 2];
        const away = 12 / Math.max(1, Math.hypot(dx, dy));
        context.fillText(name, x + dx * away, y + dy * away);
    });
}

/** A ring with a cross through it at (x, y), readable on any color. */
export function drawMarker(context, x, y) {
    for (const [color, width] of [[ink("card"), 4], [ink("ink"), 1.5]]) {
        context.strokeStyle = color;
        context.lineWidth = width;
        context.beginPath();
        context.arc(x, y, 7, 0, 2 * Math.PI);
        for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
            context.moveTo(x + 4 * dx, y + 4 * dy);
            context.lineTo(x + 11 * dx, y + 11 * dy);
        }
        context.stroke();
    }
}

/** A dot for a query point or token, filled or hollow. */
export function drawDot(context, x, y, radius, {fill = ink("query"), edge = ink("card")} = {}) {
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fillStyle = fill;
    context.strokeStyle = edge;
    context.lineWidth = 1;
    context.fill();
    context.stroke();
}

/** Dots at positions (three numbers each) that lie within the area; smaller where there are many. */
export function drawDots(context, positions, lens) {
    const radius = positions.length > 300 ? 2 : 3.2;
    const colors = {fill: ink("query"), edge: ink("card")};
    for (const position of positions) {
        const [x, y] = lens.place(position);
        if (x >= 0 && y >= 0 && x <= lens.width && y <= lens.height) drawDot(context, x, y, radius, colors);
    }
}
