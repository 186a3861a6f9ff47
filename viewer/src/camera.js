// The camera that all panels of a stage share: zoom and pan in the plane, orbit in space.

const LEAST = 0.5, MOST = 4000;
export const WHOLE = {x: 0, y: 0, zoom: 1};

export class Camera {
    #listeners = new Set();
    #home = WHOLE;

    constructor() {
        this.#look(WHOLE);
    }

    #look(where) {
        Object.assign(this, {...where, azimuth: -0.9, elevation: 0.5});
    }

    #isAt(where) {
        return Object.keys(where).every((name) => this[name] === where[name]);
    }

    onChange(react) {
        this.#listeners.add(react);
    }

    #changed() {
        this.#listeners.forEach((react) => react());
    }

    get moved() {
        return !this.#isAt(WHOLE);
    }

    /** Where a reset goes; a camera that nobody has moved goes there now. */
    setHome(home) {
        const still = this.#isAt(this.#home);
        this.#home = home;
        if (still && !this.#isAt(home)) this.reset();
    }

    reset() {
        this.show(this.#home);
    }

    /** Look at {x, y, zoom}, from the usual side in space. */
    show(where) {
        this.#look(where);
        this.#changed();
    }

    /** Unit vectors of the screen in space: right, up, and toward the reader. */
    axes(dim) {
        if (dim === 2) return [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
        const [sa, ca, se, ce] = [Math.sin(this.azimuth), Math.cos(this.azimuth), Math.sin(this.elevation), Math.cos(this.elevation)];
        return [[-sa, ca, 0], [-se * ca, -se * sa, ce], [ce * ca, ce * sa, se]];
    }

    /** How a picture lies in an area of width × height pixels: pixels per unit, and places of points on the screen. */
    lens(picture, width, height) {
        const [ex, ey, ez] = picture.extent;
        let fit;
        if (picture.dim === 3) fit = Array(2).fill((0.98 * Math.min(width, height)) / Math.hypot(ex, ey, ez));
        else if (picture.fill) fit = [width / ex, height / ey];
        else fit = Array(2).fill(Math.min(width / ex, height / ey));
        const pixels = fit.map((each) => each * this.zoom);
        const [right, up, toward] = this.axes(picture.dim);
        const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        return {
            width, height, pixels, right, up, toward, center: [this.x, this.y],
            place: (point) => [
                width / 2 + (dot(point, right) - this.x) * pixels[0],
                height / 2 - (dot(point, up) - this.y) * pixels[1],
            ],
            depth: (point) => dot(point, toward),
            under: (px, py) => [this.x + (px - width / 2) / pixels[0], this.y + (height / 2 - py) / pixels[1]],
        };
    }

    /** Zoom so that what lies under (px, py) stays there. */
    zoomAt(factor, px, py, lens) {
        const zoom = Math.min(MOST, Math.max(LEAST, this.zoom * factor));
        const [u, v] = lens.under(px, py);
        const keep = this.zoom / zoom;
        this.x = u - (u - this.x) * keep;
        this.y = v - (v - this.y) * keep;
        this.zoom = zoom;
        this.#changed();
    }

    panBy(dx, dy, lens) {
        this.x -= dx / lens.pixels[0];
        this.y += dy / lens.pixels[1];
        this.#changed();
    }

    orbitBy(dx, dy) {
        this.azimuth -= dx * 0.01;
        this.elevation = Math.min(1.57, Math.max(-1.57, this.elevation + dy * 0.01));
        this.#changed();
    }
}
