// evaluator predicts as the model does: what it returns is checked against it.
// f is a formula; v says which fit: 0 that to all rows, else a bootstrap's.
const evaluator = (f) => {
  const z = (c, x) => {
    c = f.columns[c];
    const y = c.log ? Math.log(Math.max(x, Number.MIN_VALUE)) : x;
    return (Math.min(Math.max(y, c.low), c.top) - c.mean) / c.sd;
  };
  const parts = (c, x) => f.columns[c].levels ? f.columns[c].levels.slice(1).map((_, i) => x === i + 1 ? 1 : 0) : [z(c, x)];
  const expand = (n, row, size) => {
    const each = n.parents.map(p => parts(p, row[p])), out = [1].concat(...each);
    if (size === out.length) return out;
    n.parents.forEach((p, i) => { if (!f.columns[p].levels) out.push(each[i][0] * each[i][0]); });
    if (size > out.length)
      each.forEach((a, i) => each.slice(0, i).forEach(b => a.forEach(x => b.forEach(y => out.push(x * y)))));
    return out;
  };
  const node = (n, row, v) => {
    const coef = n.coef[v], x = expand(n, row, coef.length);
    let y = 0;
    for (let i = 0; i < coef.length; i++) y += coef[i] * x[i];
    y = Math.min(Math.max(y, n.low), n.top);
    return n.log ? Math.exp(y) : y;
  };
  // held are metrics that are set, by column; without says that their edges that a
  // hidden cause may account for carry nothing.
  const propagate = (row, held, v, without) => {
    const out = row.slice(), natural = without ? propagate(row, {}, v) : null;
    for (const n of f.nodes) {
      if (n.column in held) { out[n.column] = held[n.column]; continue; }
      const doubtful = without ? (n.confounded || []).filter(p => p in held) : [];
      doubtful.forEach(p => { out[p] = natural[p]; });
      out[n.column] = node(n, out, v);
      doubtful.forEach(p => { out[p] = held[p]; });
    }
    return out;
  };
  const unit = (o, y) => o.direct.log ? Math.log(Math.max(y, Number.MIN_VALUE)) : y;
  const back = (o, y) => o.direct.log ? Math.exp(y) : y;
  const children = f.columns.map(() => []);
  f.nodes.forEach(n => n.parents.forEach(p => children[p].push(n.column)));
  const reaches = (a, b) => a === b || children[a].some(c => reaches(c, b));
  const q95 = 1.6448536269514722;
  // predict gives {mean, low, high, identified} of objective o at a row. What
  // metrics that are held lead to is compared with what the graph alone says.
  const predict = (o, row, held, graph) => {
    const setting = graph || Object.keys(held).length > 0, to = o.direct.column, fits = o.direct.coef.length;
    const mean = v => {
      const s = setting || o.weight > 0 ? propagate(row, held, v)[to] : 0;
      return setting ? s : o.weight * s + (1 - o.weight) * (o.weight < 1 ? node(o.direct, row, v) : 0);
    };
    const all = mean(0), middle = unit(o, all);
    let squares = setting ? 0 : o.spread * o.spread, identified = true, low = all, high = all;
    for (let v = 1; v < fits; v++) squares += (unit(o, mean(v)) - middle) ** 2 / (fits - 1);
    if (setting) {
      identified = !f.nodes.some(n => reaches(n.column, to) && (n.confounded || []).some(p => p in held));
      if (!identified) {
        const other = propagate(row, held, 0, true)[to];
        low = Math.min(low, other); high = Math.max(high, other);
      }
    }
    const sd = Math.sqrt(squares), s = v => Math.sqrt(Math.log1p((sd / v) ** 2));
    if (o.direct.positive) return { mean: all, low: low * Math.exp(-q95 * s(low)), high: high * Math.exp(q95 * s(high)), identified };
    return { mean: all, low: back(o, unit(o, low) - q95 * sd), high: back(o, unit(o, high) + q95 * sd), identified };
  };
  return { propagate, predict };
};
