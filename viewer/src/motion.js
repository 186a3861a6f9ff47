// Whether something moves: since the last touch less than a moment ago, or held (while playing).

const MOMENT = 200, LONGEST = 600; // milliseconds

export class Motion {
    #timer = 0;
    #last = -Infinity;
    #held = false;
    #listeners = new Set();
    moving = false;

    onChange(react) {
        this.#listeners.add(react);
    }

    /** Something moved just now. Where drawing is slow, so that moves come rarely, it rests only after a longer while. */
    touch() {
        const gap = performance.now() - this.#last;
        this.#last = performance.now();
        clearTimeout(this.#timer);
        if (!this.#held) this.#timer = setTimeout(() => this.#set(false), gap < LONGEST ? Math.max(MOMENT, 1.5 * gap) : MOMENT);
        this.#set(true);
    }

    hold(held) {
        this.#held = held;
        this.touch();
    }

    #set(moving) {
        if (this.moving === moving) return;
        this.moving = moving;
        this.#listeners.forEach((react) => react());
    }
}
