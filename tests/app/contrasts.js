// Count the visible texts and bordered controls of a page, also in shadow roots; list those with too low a contrast (WCAG 2.2).
() => {
  const channels = (colour) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const known = new Map();
  const read = (colour) => known.get(colour) ?? known.set(colour, channels(colour)).get(colour);
  // One colour over another, both with their alpha.
  const over = ([r, g, b, a], [r2, g2, b2, a2]) => {
    const alpha = a + a2 * (1 - a);
    const mix = (x, y) => (alpha ? (x * a + y * a2 * (1 - a)) / alpha : 0);
    return [mix(r, r2), mix(g, g2), mix(b, b2), alpha];
  };
  const parentOf = (node) => node.parentElement ?? node.getRootNode().host ?? null;
  // A slider's number is outside the box of its parent, the thumb, so the thumb's colour is not behind it.
  const hangsOutside = (child, parent) => {
    if (!child || getComputedStyle(child).position !== "absolute") return false;
    const [inner, outer] = [child.getBoundingClientRect(), parent.getBoundingClientRect()];
    const above = inner.bottom <= outer.top || inner.top >= outer.bottom;
    return above || inner.right <= outer.left || inner.left >= outer.right;
  };
  // Return a colour as seen over the backgrounds of `from` and its ancestors, and the mixed background itself.
  const seen = (colour, from) => {
    let [front, back] = [read(colour), [0, 0, 0, 0]];
    for (let at = from, child = null; at; child = at, at = parentOf(at)) {
      const style = getComputedStyle(at);
      const ground = hangsOutside(child, at) ? [0, 0, 0, 0] : read(style.backgroundColor);
      [front, back] = [over(front, ground), over(back, ground)];
      const opacity = Number(style.opacity);
      front[3] *= opacity;
      back[3] *= opacity;
    }
    return [over(front, [255, 255, 255, 1]), over(back, [255, 255, 255, 1])];
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = ([one, other]) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const isShown = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  };
  // Disabled controls and icon fonts need no text contrast. Texts on the drawn colours of a figure are left to the
  // tests of the figures: no computed style contains these colours.
  const EXEMPT =
    ":disabled, [aria-disabled=true], [data-testid=stIconMaterial], .js-plotly-plot .plot, .js-plotly-plot .annotation-text-g, .node .place, .figure-one .block";
  const isExempt = (element) => Boolean(element.closest(EXEMPT));
  const isFramed = (element) => {
    const { borderTopWidth, borderLeftWidth } = getComputedStyle(element);
    return parseFloat(borderTopWidth) > 0 && parseFloat(borderLeftWidth) > 0;
  };

  const texts = [];
  const controls = [];
  const visit = (root) => {
    for (const element of root.querySelectorAll("*")) {
      if (element.shadowRoot) visit(element.shadowRoot);
      if (!isShown(element) || isExempt(element)) continue;
      const style = getComputedStyle(element);
      const own = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join(" ").trim();
      const placeholder = element.matches("input, textarea") && !element.value ? element.placeholder : "";
      if (own || placeholder) {
        const colour = placeholder ? getComputedStyle(element, "::placeholder").color : element instanceof SVGElement ? style.fill : style.color;
        const size = parseFloat(style.fontSize);
        const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        const ratio = contrast(seen(colour, element));
        // In a figure, texts in the page's colour, black or white lie on drawn colours: see EXEMPT.
        const onPicture =
          (ratio < 1.05 || ["rgb(0, 0, 0)", "rgb(255, 255, 255)"].includes(colour)) && element.closest(".js-plotly-plot svg");
        if (!onPicture) texts.push({ what: (own || placeholder).slice(0, 40), size, ratio, needed: large ? 3 : 4.5 });
      }
      if (element.matches("button, select, summary, input:not([type=range], [type=checkbox], [type=radio]), textarea")) {
        let box = element;
        for (let up = 0; up < 4 && box && !isFramed(box); up++) box = parentOf(box);
        const border = box && isFramed(box) && getComputedStyle(box);
        if (!border || read(border.borderTopColor)[3] === 0) continue;
        const ratio = contrast([seen(border.borderTopColor, parentOf(box))[0], seen("transparent", parentOf(box))[1]]);
        controls.push({ what: (element.getAttribute("aria-label") || element.textContent).slice(0, 40), ratio, needed: 3 });
      }
    }
  };
  visit(document);
  const low = [...texts, ...controls].filter(({ ratio, needed }) => ratio < needed);
  return { texts: texts.length, controls: controls.length, low };
}
