// What fingers, mouse and wheel do on a view: zoom, pan or orbit, hover and click.

let wheelOwner = null;
let lastWheel = -Infinity;

// A wheel turn that began outside of a view keeps scrolling the page when the view comes under the pointer.
document.addEventListener("wheel", (event) => {
    if (event.timeStamp - lastWheel > 300) wheelOwner = event.target instanceof Element ? event.target.closest("[data-view]") : null;
    lastWheel = event.timeStamp;
}, {capture: true, passive: true});

/**
 * Listen on `view`. `area()` gives {lens, left, top}: the lens of the drawn area and its corner in the view.
 * `orbits()` says whether a drag turns; `hover` and `click` receive pixels within the area.
 */
export function listen(view, {camera, area, orbits, hover = () => {}, click = () => {}}) {
    view.dataset.view = "";
    const held = new Map(); // pointers that are down → where
    let traveled = 0;

    const within = (event) => {
        const box = view.getBoundingClientRect(), {left, top} = area();
        return [event.clientX - box.left - left, event.clientY - box.top - top];
    };

    view.addEventListener("wheel", (event) => {
        if (wheelOwner !== view) return;
        event.preventDefault();
        const lines = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
        camera.zoomAt(Math.exp(-0.0015 * Math.max(-400, Math.min(400, event.deltaY * lines))), ...within(event), area().lens);
    }, {passive: false});

    view.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        view.setPointerCapture(event.pointerId);
        held.set(event.pointerId, within(event));
        if (held.size === 1) traveled = 0;
        view.classList.add("held");
    });

    const pinch = (before, id, to) => {
        const other = [...held].find(([key]) => key !== id)[1];
        const apart = (a, b) => Math.max(8, Math.hypot(a[0] - b[0], a[1] - b[1]));
        const {lens} = area();
        camera.panBy((to[0] - before[0]) / 2, (to[1] - before[1]) / 2, lens);
        camera.zoomAt(apart(to, other) / apart(before, other), (to[0] + other[0]) / 2, (to[1] + other[1]) / 2, lens);
    };

    view.addEventListener("pointermove", (event) => {
        const to = within(event);
        const before = held.get(event.pointerId);
        if (!before) {
            if (event.pointerType !== "touch") hover(...to);
            return;
        }
        const [dx, dy] = [to[0] - before[0], to[1] - before[1]];
        traveled += Math.hypot(dx, dy);
        held.set(event.pointerId, to);
        if (held.size === 2) pinch(before, event.pointerId, to);
        else if (held.size === 1 && traveled > 3) {
            if (orbits() && !event.shiftKey) camera.orbitBy(dx, dy);
            else camera.panBy(dx, dy, area().lens);
        }
    });

    const release = (event) => {
        if (!held.delete(event.pointerId)) return;
        if (!held.size) view.classList.remove("held");
        if (event.type === "pointerup" && traveled <= 3) {
            hover(...within(event));
            click(...within(event));
        }
    };
    view.addEventListener("pointerup", release);
    view.addEventListener("pointercancel", release);

    // One finger scrolls the page until there is something to pan; two always zoom.
    const allow = () => (view.style.touchAction = camera.moved && !orbits() ? "none" : "pan-y");
    camera.onChange(allow);
    allow();
}
