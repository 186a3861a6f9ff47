// Small drawings in the plane on ordinary canvases: where coordinates lie, and choices of two axes of three.

/** Maps coordinates in the box [low, high] into width × height pixels, keeping proportions unless `fill`. */
export function planeOf(low, high, width, height, {pad = 8, fill = false} = {}) {
    const size = low.map((each, axis) => high[axis] - each || 1);
    const room = [width - 2 * pad, height - 2 * pad];
    const fit = room.map((each, axis) => each / size[axis]);
    const scale = fill ? fit : Array(2).fill(Math.min(...fit));
    return {
        scale,
        place: (x, y) => [
            width / 2 + (x - (low[0] + high[0]) / 2) * scale[0],
            height / 2 - (y - (low[1] + high[1]) / 2) * scale[1],
        ],
    };
}

/** The planes to look at: one in the plane, three projections in space. */
export const planesOf = (axes) => (axes.length === 3 ? [[0, 1], [0, 2], [1, 2]] : [[0, 1]]);

export const planeName = (axes, [a, b]) => `${axes[a]}–${axes[b]}`;
