// Faults of a page's layout: text that is clipped, off the screen or over other text, and words of commands that break.
(() => {
  const out = [], width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width + 1) out.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  const shown = (e) => e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && !e.closest(".away, .skip, title, option");
  const boxes = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = walk.nextNode());) {
    const e = n.parentElement;
    if (!n.data.trim() || !e || !shown(e)) continue;
    const range = document.createRange();
    range.selectNodeContents(n);
    for (const r of range.getClientRects()) {
      if (r.width < 1 || r.height < 1) continue;
      const scroll = e.closest(".scroll");
      const words = n.data.trim().slice(0, 40);
      if (!scroll && (r.right > width + 1 || r.left < -1)) out.push(`off the screen: ${words}`);
      for (let c = e; c && c !== document.body; c = c.parentElement) {
        const s = getComputedStyle(c);
        const edge = c.getBoundingClientRect();
        if (c !== scroll && s.overflowX !== "visible" && c.clientWidth && (r.right > edge.right + 1 || r.left < edge.left - 1)) {
          out.push(`clipped by ${c.tagName}.${c.className}: ${words}`);
          break;
        }
      }
      boxes.push({ r, n, words, scroll });
    }
    const command = e.closest(".command code");
    for (const word of command ? n.data.matchAll(/\S+/g) : []) {
      range.setStart(n, word.index);
      range.setEnd(n, word.index + word[0].length);
      const parts = [...range.getClientRects()];
      const wide = parts.reduce((sum, r) => sum + r.width, 0);
      if (parts.length > 1 && wide < command.clientWidth - 20) out.push(`broken: ${word[0]}`);
    }
  }
  boxes.sort((a, b) => a.r.top - b.r.top);
  for (let i = 0; i < boxes.length; i++) {
    const a = boxes[i];
    for (let j = i + 1; j < boxes.length && boxes[j].r.top < a.r.bottom - 3; j++) {
      const b = boxes[j];
      if (a.n === b.n || a.scroll !== b.scroll) continue;
      const x = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left);
      const y = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top);
      if (x > 2 && y > 4) out.push(`overlap: ${a.words} / ${b.words}`);
    }
  }
  return [...new Set(out)].slice(0, 10);
})()
