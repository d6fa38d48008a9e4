'use strict';
(() => {
const data = JSON.parse(document.getElementById('data').textContent);
const root = document.documentElement;
const colour = name => getComputedStyle(root).getPropertyValue('--' + name).trim();
const isDark = () => root.dataset.theme === 'dark' || (root.dataset.theme !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);

// A kind's colour on light and on dark, and its mark: never told by colour alone.
const looks = {
  'added': ['#1a7f37', '#3fb950', 'circle'], 'modified': ['#0969da', '#58a6ff', 'rect'], 'deleted': ['#cf222e', '#ff7b72', 'diamond'],
  'listed': ['#6e7781', '#9198a1', 'circle'], 'read': ['#8c959f', '#848d97', 'circle'], 'create': ['#1a7f37', '#3fb950', 'triangle'],
  'update': ['#0969da', '#58a6ff', 'roundRect'], 'patch': ['#8250df', '#bc8cff', 'roundRect'], 'delete': ['#cf222e', '#ff7b72', 'diamond'],
  'conflict': ['#bc4c00', '#ffa657', 'pin'], 'refused': ['#a40e26', '#ff938a', 'pin'], 'unanswered': ['#57606a', '#b1bac4', 'arrow'],
  'reconcile': ['#218bff', '#388bfd', 'rect'], 'failed reconcile': ['#fa4549', '#f85149', 'rect'],
  'kernel event': ['#953800', '#f0883e', 'diamond'], 'fault': ['#bf3989', '#f778ba', 'pin'],
};
const look = kind => looks[data.kinds[kind]];
const runOf = el => data.runs[el.closest('[data-run]').dataset.run];
const paint = kind => look(kind)[isDark() ? 1 : 0];

const add = (parent, tag, text) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; parent.append(e); return e; };
const span = ms => {
  const a = Math.abs(ms), n = x => String(+x.toPrecision(3));
  if (a >= 6e5) return n(ms / 6e4) + ' min';
  if (a >= 1e3) return +(ms / 1e3).toFixed(a >= 1e5 ? 1 : 3) + ' s';
  if (a >= 1 || a === 0) return n(ms) + ' ms';
  return n(ms * 1e3) + ' µs';
};
const clock = (tl, ms) => new Date(tl.start + ms).toISOString().replace('T', ' ').replace('Z', ' UTC');

// ---- charts: drawn when they come into view, drawn anew when the theme changes

const charts = new Map(); // element → the chart
let keep; // what a live page does with a chart once it is drawn
const options = (text, more) => Object.assign({
  animation: false, aria: {enabled: true}, textStyle: {color: colour('text'), fontFamily: 'inherit'}, backgroundColor: 'transparent',
}, more, {tooltip: Object.assign({renderMode: 'richText', confine: true, backgroundColor: colour('card'), borderColor: colour('line'), textStyle: {color: colour('text'), fontSize: 12}}, more.tooltip)});
const axis = more => Object.assign({axisLine: {lineStyle: {color: colour('soft')}}, axisLabel: {color: colour('text')}, splitLine: {lineStyle: {color: colour('line')}}, nameTextStyle: {color: colour('soft')}}, more);
const legend = more => Object.assign({type: 'scroll', top: 0, textStyle: {color: colour('text')}, pageTextStyle: {color: colour('text')}, pageIconColor: colour('text')}, more);

function draw(el) {
  charts.get(el)?.dispose();
  el.replaceChildren();
  delete el.cursor;
  const c = echarts.init(el, null, {renderer: 'canvas'});
  charts.set(el, c);
  makers[el.dataset.chart](el, c);
  keep?.(el, c);
  el.dataset.drawn = '';
}

const label = (el, text, role) => { el.setAttribute('role', role || 'img'); el.setAttribute('aria-label', text); };
// filterOf is the filter of lanes: a part of their names or, in quotes, the whole of what comes after the kind.
const filterOf = el => {
  const wanted = el.closest('[data-run]').querySelector('.filter').value.trim().toLowerCase(), whole = /^"(.+)"$/.exec(wanted)?.[1];
  return name => whole ? (' ' + name.toLowerCase()).endsWith(' ' + whole) : name.toLowerCase().includes(wanted);
};
const findingOf = el => runOf(el).findings.find(f => f.id === el.dataset.id);

const makers = {
  timeline(el, c) { const f = filterOf(el); lanes(el, c, runOf(el).timeline, {filter: f, label: 'Timeline of the whole run'}); },
  finding(el, c) {
    const f = findingOf(el), wanted = new Set(f.lanes);
    lanes(el, c, runOf(el).timeline, {filter: (name, group) => wanted.has(name) || group === 'faults' || (group === 'reconciles' && f.lanes.some(l => name.endsWith(' ' + l.split(' ')[1]))), from: f.from, to: f.to, marks: new Set(f.marks), changes: f.changes, label: 'Timeline of ' + f.id});
  },
  beside(el, c) { both(el, c); },
  survival(el, c) {
    const f = findingOf(el), x = [{seconds: 0, survival: 1, low: 1, high: 1}, ...f.survival];
    label(el, 'Share of deletions still open over time, ' + x.length + ' steps');
    const step = key => x.map(p => [p.seconds, p[key]]);
    c.setOption(options('', {
      grid: {left: 60, right: 20, top: 40, bottom: 45}, legend: legend(), tooltip: {trigger: 'axis'},
      xAxis: axis({type: 'value', name: 'seconds since the deletion', nameLocation: 'middle', nameGap: 28}), yAxis: axis({type: 'value', min: 0, max: 1}),
      series: [
        {name: 'still open', type: 'line', step: 'end', data: step('survival'), itemStyle: {color: paint(1)}, lineStyle: {color: paint(1), width: 2}},
        {name: 'low', type: 'line', step: 'end', data: step('low'), symbol: 'none', itemStyle: {color: colour('soft')}, lineStyle: {color: colour('soft'), type: 'dashed'}},
        {name: 'high', type: 'line', step: 'end', data: step('high'), symbol: 'none', itemStyle: {color: colour('soft')}, lineStyle: {color: colour('soft'), type: 'dotted'}},
      ],
    }));
  },
  rhythm(el, c) {
    const r = findingOf(el).rhythm, what = r.lags ? 'agreement with what was so long before' : 'strength of each period';
    label(el, (r.lags ? 'Autocorrelation: ' : 'Periodogram: ') + what + '. It comes every ' + span(1e3 * r.period) + '; by chance one in a hundred is over ' + r.line.toFixed(2) + '.');
    const points = r.seconds.map((x, i) => [1e3 * x, r.strength[i]]), line = (at, text, position, more) => Object.assign({label: {formatter: text, color: colour('text'), position}}, at, more);
    c.setOption(options('', {
      grid: {left: 60, right: 25, top: 40, bottom: 45}, tooltip: {trigger: 'axis', formatter: p => span(p[0].value[0]) + ': ' + p[0].value[1].toFixed(3)},
      xAxis: axis({type: r.lags ? 'value' : 'log', min: r.lags ? 0 : 1e3 * Math.min(...r.seconds) / 2, max: 'dataMax', name: r.lags ? 'how long before' : 'period', nameLocation: 'middle', nameGap: 28, axisLabel: {color: colour('text'), formatter: span, hideOverlap: true}, splitLine: {show: false}}),
      yAxis: axis({type: 'value', max: 1, name: r.lags ? 'agreement' : 'strength'}),
      series: [{
        name: what, type: 'line', data: points, symbol: r.lags ? 'circle' : 'none', symbolSize: 6, itemStyle: {color: paint(1)}, lineStyle: {color: paint(1), width: 1.5},
        markLine: {symbol: 'none', silent: true, data: [
          line({yAxis: r.line}, 'chance: 1 in 100', 'insideEndTop', {lineStyle: {color: colour('soft'), type: 'dashed'}}),
          line({xAxis: 1e3 * r.period}, 'every ' + span(1e3 * r.period), 'end', {lineStyle: {color: colour('error'), type: 'solid'}}),
        ]},
      }],
    }));
  },
  backoff(el, c) {
    const b = findingOf(el).backoff, fit = Array.from({length: b.fitted}, (_, i) => [i + 1, 1e3 * b.firstSeconds * b.ratio ** i]);
    label(el, 'Delays between attempts on a logarithmic scale: ' + b.delaysSeconds.length + ', each ' + b.ratio.toPrecision(3) + ' times the one before over the first ' + b.fitted);
    c.setOption(options('', {
      grid: {left: 70, right: 20, top: 40, bottom: 45}, legend: legend(), tooltip: {trigger: 'item', formatter: p => p.seriesName + ' ' + p.value[0] + ': ' + span(p.value[1])},
      xAxis: axis({type: 'value', min: 0, max: b.delaysSeconds.length + 1, minInterval: 1, name: 'delay', nameLocation: 'middle', nameGap: 28, splitLine: {show: false}}),
      yAxis: axis({type: 'log', axisLabel: {color: colour('text'), formatter: span}}),
      series: [
        {name: 'delay', type: 'scatter', symbolSize: 8, itemStyle: {color: paint(1), opacity: 1}, data: b.delaysSeconds.map((d, i) => [i + 1, 1e3 * d]).filter(p => p[1] > 0)},
        {name: 'fit', type: 'line', symbol: 'none', itemStyle: {color: paint(9)}, lineStyle: {color: paint(9), width: 2, type: 'dashed'}, data: fit},
      ],
    }));
  },
  chain(el, c) { chain(el, c, findingOf(el).path); },
  duration(el, c) {
    const h = runOf(el).duration;
    label(el, 'Histogram of reconcile durations of ' + h.controllers.join(', '));
    c.setOption(options('', {
      grid: {left: 55, right: 15, top: 40, bottom: 45}, legend: legend(), tooltip: {trigger: 'axis'},
      xAxis: axis({type: 'category', data: h.bounds.map(b => '≤ ' + span(b))}), yAxis: axis({type: 'value', minInterval: 1, name: 'reconciles'}),
      series: h.controllers.map((name, i) => ({name, type: 'bar', stack: 'all', data: h.counts[i]})),
    }));
  },
  latency(el, c) {
    const q = runOf(el).latency;
    label(el, 'Quantiles of the latency of ' + q.n.reduce((a, b) => a + b, 0) + ' API calls over time');
    const line = (name, key, i) => ({name, type: 'line', data: q.t.map((t, j) => [t, q[key][j]]), symbolSize: 5, itemStyle: {color: paint([1, 7, 9][i])}, lineStyle: {color: paint([1, 7, 9][i])}});
    c.setOption(options('', {
      grid: {left: 65, right: 15, top: 40, bottom: 45}, legend: legend(), tooltip: {trigger: 'axis', valueFormatter: v => span(v), axisPointer: {label: {formatter: p => span(p.value)}}},
      xAxis: axis({type: 'value', max: runOf(el).timeline.length, axisLabel: {color: colour('text'), formatter: span, hideOverlap: true}}), yAxis: axis({type: 'value', axisLabel: {color: colour('text'), formatter: span}}),
      series: [line('half', 'p50', 0), line('90 %', 'p90', 1), line('99 %', 'p99', 2)],
    }));
  },
  kernel(el, c) {
    const h = runOf(el).kernel, wide = Math.max(...h.cells.map(x => x[0])) + 1, top = Math.max(...h.cells.map(x => x[2]));
    label(el, 'Heat map of kernel events over time: ' + h.rows.join(', '));
    c.setOption(options('', {
      grid: {left: 10, right: 15, top: 10, bottom: 60, containLabel: true}, tooltip: {formatter: p => h.rows[p.value[1]] + '\n' + span(p.value[0] * h.width) + ': ' + p.value[2]},
      xAxis: axis({type: 'category', data: Array.from({length: wide}, (_, i) => span(i * h.width))}), yAxis: axis({type: 'category', data: h.rows, axisLabel: {color: colour('text'), width: Math.round(el.clientWidth / 3), overflow: 'truncate'}}),
      visualMap: {min: 0, max: top, text: [String(top), '0'], orient: 'horizontal', left: 'center', bottom: 0, textStyle: {color: colour('text')}, inRange: {color: isDark() ? ['#3d2a12', '#f0883e', '#ffdfb6'] : ['#fff1e5', '#f0883e', '#762d00']}},
      series: [{type: 'heatmap', data: h.cells}],
    }));
  },
  flame(el, c) { flame(el, c, el.dataset.id ? findingOf(el).flame : runOf(el).flame); },
};

// ---- lanes

// pick chooses the lanes of a timeline and puts their marks by kind: [time, lane, index, took].
function pick(tl, filter, from, to) {
  const at = new Map(), names = [];
  tl.lanes.forEach((l, i) => { if (filter(l.name, l.group)) { at.set(i, names.length); names.push(l.name); } });
  const kinds = data.kinds.map(() => []);
  for (let i = 0; i < tl.t.length; i++) {
    const y = at.get(tl.lane[i]);
    if (y === undefined || tl.t[i] < from || tl.t[i] - tl.d[i] > to) continue;
    kinds[tl.kind[i]].push([tl.t[i], y, i, tl.d[i]]);
  }
  return {names, kinds};
}

const named = (tl, i) => { const kind = data.kinds[tl.kind[i]], name = tl.lanes[tl.lane[i]].name; return kind.split(' ').pop() === name.split(' ')[0] ? kind + ' ' + name.slice(name.indexOf(' ') + 1) : kind + ' ' + name; };
const note = (tl, i) => 'seq ' + tl.seq[i] + '  ' + data.kinds[tl.kind[i]] + '\n' + tl.lanes[tl.lane[i]].name + '\n' + span(tl.t[i]) + (tl.d[i] ? ', took ' + span(tl.d[i]) : '') + (tl.note[i] ? '\n' + tl.notes[tl.note[i]].slice(0, 120) : '');

const isPass = kind => data.kinds[kind].endsWith('reconcile');

function series(tl, picked, grid, marks) {
  const list = [];
  picked.kinds.forEach((points, kind) => {
    if (!points.length) return;
    const item = {name: data.kinds[kind], xAxisIndex: grid, yAxisIndex: grid, itemStyle: {color: paint(kind)}, data: points, tl};
    list.push(isPass(kind) ? Object.assign(item, {type: 'custom', encode: {x: 0, y: 1}, renderItem: (_, api) => {
      const end = api.coord([api.value(0), api.value(1)]), begin = api.coord([api.value(0) - api.value(3), api.value(1)]);
      return {type: 'rect', shape: {x: begin[0], y: end[1] - 5, width: Math.max(1, end[0] - begin[0]), height: 10}, style: {fill: paint(kind), opacity: 0.75}};
    }}) : Object.assign(item, {type: 'scatter', symbol: look(kind)[2], symbolSize: look(kind)[2] === 'pin' ? 15 : 9, large: points.length > 3000, largeThreshold: 3000}));
  });
  if (marks) {
    const rings = picked.kinds.flat().filter(p => marks.has(tl.seq[p[2]]));
    if (rings.length) list.push({name: 'evidence', type: 'scatter', xAxisIndex: grid, yAxisIndex: grid, symbol: 'circle', symbolSize: 18, silent: true, itemStyle: {color: 'transparent', borderColor: colour('error'), borderWidth: 2, opacity: 1}, data: rings});
  }
  return list;
}

const narrow = el => el.clientWidth < 600;
const rowOf = names => axis({type: 'category', inverse: true, data: names, splitLine: {show: true, lineStyle: {color: colour('line')}}, axisTick: {show: false}});
const timeAxis = (from, to) => axis({type: 'value', min: from, max: to, axisLabel: {color: colour('text'), formatter: span, hideOverlap: true}, splitLine: {show: false}});
// Of a long name the end tells more than the beginning.
const nameLabel = el => ({color: colour('text'), width: narrow(el) ? 105 : 250, overflow: 'truncate', interval: 0, fontSize: narrow(el) ? 10 : 12, formatter: n => narrow(el) && n.length > 18 ? '…' + n.slice(-17) : n});
const shown = 24; // lanes at once; more can be scrolled to

function lanes(el, c, tl, o) {
  const from = o.from ?? 0, to = Math.min(o.to ?? tl.length, tl.length) || 1;
  const picked = pick(tl, o.filter, from, to), n = picked.names.length, events = picked.kinds.reduce((a, k) => a + k.length, 0);
  el.style.height = Math.min(n, shown) * 24 + 150 + 'px';
  c.resize();
  label(el, (o.label || 'Timeline') + ': ' + n + ' lanes, ' + events + ' events. Arrow keys move, plus and minus zoom, 0 shows all, n and p read the next and the previous event.', 'application');
  const all = n > shown;
  c.setOption(options('', {
    grid: {left: narrow(el) ? 115 : 260, right: all ? 40 : 20, top: 40, bottom: 75}, legend: legend(),
    tooltip: {trigger: 'item', formatter: p => note(tl, p.value[2])},
    xAxis: timeAxis(from, to), yAxis: Object.assign(rowOf(picked.names), {axisLabel: nameLabel(el)}),
    dataZoom: [
      {type: 'inside', xAxisIndex: 0, filterMode: 'weakFilter', zoomOnMouseWheel: 'ctrl', moveOnMouseMove: true},
      {type: 'slider', xAxisIndex: 0, filterMode: 'weakFilter', bottom: 10, height: 24, labelFormatter: span, textStyle: {color: colour('text')}, showDataShadow: false},
      ...(all ? [{type: 'slider', yAxisIndex: 0, right: 5, width: 18, startValue: 0, endValue: shown - 1, filterMode: 'weakFilter', showDetail: false, showDataShadow: false, zoomLock: true}] : []),
    ],
    series: [...series(tl, picked, 0, o.marks), ...(o.changes ? [{type: 'line', data: [], markLine: {symbol: 'none', silent: true, lineStyle: {color: colour('soft'), width: 1.5, type: 'dashed'}, label: {color: colour('text'), fontSize: 10, position: 'start', formatter: p => p.name}, data: o.changes.map(x => ({xAxis: x.at, name: x.what}))}}] : [])],
  }), true);
  const order = picked.kinds.flat().map(p => p[2]).sort((a, b) => tl.seq[a] - tl.seq[b]), row = new Map(picked.names.map((name, y) => [name, y]));
  const choose = i => {
    el.cursor = order.indexOf(i);
    const y = row.get(tl.lanes[tl.lane[i]].name);
    point(el, c, tl.t[i], y, all);
    show(el, tl, i);
  };
  el.choose = choose; // of the chart as it is drawn now
  c.on('click', p => { if (p.value) choose(p.value[2]); });
  steer(el, c, d => { if (order.length) choose(order[Math.max(0, Math.min(order.length - 1, (el.cursor ?? (d > 0 ? -1 : order.length)) + d))]); });
  el.first = () => { if (order.length) choose(order[0]); };
}

// point puts a ring around the event that was chosen, and brings it into view; y is undefined where it has no lane here.
function point(el, c, t, y, scrolled) {
  let ring = el.querySelector('.ring');
  if (!ring) { ring = add(el, 'div'); ring.className = 'ring'; c.on('datazoom', () => el.place()); }
  const place = el.place = () => {
    const at = y === undefined ? [-1, -1] : c.convertToPixel({xAxisIndex: 0, yAxisIndex: 0}, [t, y]);
    ring.hidden = !c.containPixel({gridIndex: 0}, at);
    ring.style.transform = 'translate(' + Math.round(at[0] - 13) + 'px,' + Math.round(at[1] - 13) + 'px)';
  };
  if (y === undefined) return place();
  const [x, , z] = c.getOption().dataZoom, wide = x.endValue - x.startValue;
  if (t < x.startValue || t > x.endValue) { const a = t - wide / 2; c.dispatchAction({type: 'dataZoom', dataZoomIndex: 0, startValue: a, endValue: a + wide}); }
  if (scrolled && (y < z.startValue || y > z.endValue)) { const a = Math.max(0, y - shown / 2); c.dispatchAction({type: 'dataZoom', dataZoomIndex: 2, startValue: a, endValue: a + shown - 1}); }
  place();
}

// both draws the run over its reference, on one scale of time, with the first difference marked.
function both(el, c) {
  const run = runOf(el).timeline, b = runOf(el).beside, other = data.reference, wanted = new Set(b.lanes), of = (name, group) => group === 'faults' || (group === 'objects' && wanted.has(name));
  const end = Math.max(run.length, other.length), a = pick(run, of, 0, end), r = pick(other, of, 0, end);
  const names = [...new Set([...a.names, ...r.names])], place = new Map(names.map((n, i) => [n, i]));
  const onto = (tl, p) => { p.kinds.forEach(k => k.forEach(x => { x[1] = place.get(tl.lanes[tl.lane[x[2]]].name); })); return p; };
  const height = names.length * 20;
  el.style.height = 2 * height + 220 + 'px';
  c.resize();
  label(el, 'The run above, the reference below. First difference: ' + (b.lane ? b.lane + ', ' + b.what : 'none') + '. Arrow keys move, plus and minus zoom, 0 shows all.', 'application');
  const left = narrow(el) ? 115 : 260, mark = (list, at, text) => { if (list.length && at >= 0) list[0].markLine = {symbol: 'none', silent: true, lineStyle: {color: colour('error'), width: 2}, label: {formatter: text, color: colour('error'), position: 'start'}, data: [{xAxis: at}]}; return list; };
  c.setOption(options('', {
    legend: legend(), title: [{text: 'this run', left: 5, top: 30, textStyle: {fontSize: 12, color: colour('text')}}, {text: 'the reference', left: 5, top: 75 + height, textStyle: {fontSize: 12, color: colour('text')}}],
    grid: [{left, right: 20, top: 50, height}, {left, right: 20, top: 95 + height, height}],
    tooltip: {trigger: 'item', formatter: p => note(p.seriesIndex < cut ? run : other, p.value[2])},
    xAxis: [Object.assign(timeAxis(0, end), {gridIndex: 0}), Object.assign(timeAxis(0, end), {gridIndex: 1})],
    yAxis: [0, 1].map(i => Object.assign(rowOf(names), {gridIndex: i, axisLabel: nameLabel(el)})),
    dataZoom: [{type: 'inside', xAxisIndex: [0, 1], filterMode: 'weakFilter', zoomOnMouseWheel: 'ctrl'}, {type: 'slider', xAxisIndex: [0, 1], filterMode: 'weakFilter', bottom: 5, height: 24, labelFormatter: span, textStyle: {color: colour('text')}, showDataShadow: false}],
    series: [],
  }), true);
  const mine = mark(series(run, onto(run, a), 0), b.at, 'first difference'), cut = mine.length;
  c.setOption({series: [...mine, ...mark(series(other, onto(other, r), 1), b.reference, 'here')]});
  c.on('click', p => { if (p.value) show(el, p.seriesIndex < cut ? run : other, p.value[2]); });
  steer(el, c);
}

// steer is the keyboard's way about a chart.
function steer(el, c, step) {
  el.tabIndex = 0;
  el.onkeydown = e => {
    const z = c.getOption().dataZoom?.[0];
    if (!z || e.ctrlKey || e.metaKey || e.altKey) return;
    let {start, end} = z, w = end - start;
    const mid = (start + end) / 2;
    switch (e.key) {
    case 'ArrowLeft': start = Math.max(0, start - w / 5); end = start + w; break;
    case 'ArrowRight': end = Math.min(100, end + w / 5); start = end - w; break;
    case '+': case '=': start = mid - w / 4; end = mid + w / 4; break;
    case '-': start = Math.max(0, mid - w); end = Math.min(100, mid + w); break;
    case '0': start = 0; end = 100; break;
    case 'n': case 'p': step?.(e.key === 'n' ? 1 : -1); e.preventDefault(); return;
    default: return;
    }
    e.preventDefault();
    c.dispatchAction({type: 'dataZoom', dataZoomIndex: 0, start, end});
  };
}

// led are the events of a reconcile and what queued it: [words, index] each.
function led(tl, i) {
  tl.at ??= new Map(tl.seq.map((seq, j) => [seq, j]));
  const list = [], from = tl.at.get(tl.of[i]);
  if (isPass(tl.kind[i])) {
    if (from !== undefined) list.push(['queued by', from]);
    for (let j = i; j >= 0 && tl.t[j] >= tl.t[i] - tl.d[i] - 1; j--) if (tl.of[j] === tl.seq[i] && !isPass(tl.kind[j])) list.push(['its call', j]);
  } else if (from !== undefined) list.push(['in', from]);
  return list.slice(0, 50);
}

// show tells of one event, below the chart that it was chosen in, with ways to others.
function show(el, tl, i) {
  let box = el.nextElementSibling;
  if (!box?.classList.contains('record')) { box = document.createElement('div'); box.className = 'record'; box.setAttribute('role', 'status'); el.after(box); }
  box.replaceChildren();
  add(box, 'h3', 'seq ' + tl.seq[i] + ': ' + named(tl, i));
  add(box, 'p', clock(tl, tl.t[i]) + ', ' + span(tl.t[i]) + ' after the begin' + (tl.d[i] ? ', took ' + span(tl.d[i]) : '') + (tl.note[i] ? '. ' + tl.notes[tl.note[i]] : ''));
  const links = el.choose ? led(tl, i) : [];
  if (links.length) {
    const nav = add(box, 'p');
    for (const [words, j] of links) { const b = add(nav, 'button', words + ' seq ' + tl.seq[j] + ': ' + (tl.note[j] ? tl.notes[tl.note[j]].slice(0, 80) : named(tl, j))); b.type = 'button'; b.onclick = () => { el.choose(j); el.focus({preventScroll: true}); }; nav.append(' '); }
  }
  const run = runOf(el), list = tl === run.timeline && run.changes[tl.seq[i]];
  if (!list) return;
  if (!list.length) { add(box, 'p', 'No field but the version changed.'); return; }
  const scroll = add(box, 'div'); scroll.className = 'scroll'; scroll.tabIndex = 0;
  const table = add(scroll, 'table'), head = add(add(table, 'thead'), 'tr'), body = add(table, 'tbody');
  for (const t of ['field', 'before', 'after']) add(head, 'th', t);
  for (const x of list) { const r = add(body, 'tr'); add(add(r, 'td'), 'code', x.path); add(add(r, 'td'), 'code', x.before || '(absent)'); add(add(r, 'td'), 'code', x.after || '(gone)'); }
  const more = run.more[tl.seq[i]];
  if (more) add(box, 'p', more + ' fields more.');
}

// ---- what led to what: the earliest step on the left, an arrow for each link, solid where it was recorded

function chain(el, c, path) {
  const steps = [...path].reverse(), stacked = narrow(el), gap = 90;
  label(el, 'How it came about, in ' + steps.length + ' steps: ' + steps.map(s => s.what).join('; then '));
  el.style.height = (stacked ? steps.length * gap + 20 : 190) + 'px';
  c.resize();
  const wide = stacked ? 250 : Math.max(70, Math.min(190, (el.clientWidth - 40) / steps.length - 24));
  const tall = stacked ? 62 : 100, half = stacked ? tall / 2 / gap : wide / 2 / ((el.clientWidth - 10) / steps.length); // of a box, in steps
  const colours = {event: paint(1), write: paint(7), reconcile: paint(12), unknown: colour('soft')};
  c.setOption(options('', {
    tooltip: {formatter: p => p.data.by ?? p.data.what},
    grid: {left: 5, right: 5, top: 5, bottom: 5},
    xAxis: {type: 'value', show: false, min: -0.5, max: stacked ? 0.5 : steps.length - 0.5}, yAxis: {type: 'value', show: false, inverse: true, min: -0.5, max: stacked ? steps.length - 0.5 : 0.5},
    series: [{
      type: 'scatter', symbol: 'roundRect', symbolSize: [wide, tall],
      data: steps.map((s, i) => ({
        name: String(i), what: s.what + (s.code ? '\n' + s.code : ''), value: stacked ? [0, i] : [i, 0],
        itemStyle: {color: colour('back'), borderColor: colours[s.kind] || colour('soft'), borderWidth: 2, opacity: 1},
        label: {show: true, color: colour('text'), fontSize: 11, lineHeight: 14, width: wide - 12, overflow: 'break', formatter: () => (s.seq ? 'seq ' + s.seq + '\n' : '') + (s.what.length > 110 ? s.what.slice(0, 109) + '…' : s.what)},
      })),
    }, {
      type: 'lines', coordinateSystem: 'cartesian2d', symbol: ['none', 'arrow'], symbolSize: 10,
      data: steps.slice(1).map((_, i) => {
        const to = steps[i], ends = [i + half, i + 1 - half];
        return {coords: ends.map(x => stacked ? [0, x] : [x, 0]), by: (to.known || '') + (to.known === 'inferred' ? ', ' + Math.round(100 * to.confidence) + ' % sure' : '') + (to.by ? ': ' + to.by : ''), lineStyle: {color: colour('text'), width: 2, opacity: 1, type: to.known === 'recorded' ? 'solid' : 'dashed'}};
      }),
    }],
  }));
}

// ---- flame graph: a click makes a box the whole

function flame(el, c, tree) {
  let top = tree;
  const hue = name => { let h = 0; for (const ch of name.replace(/\.[^./]*$/, '')) h = (h * 31 + ch.codePointAt(0)) >>> 0; return h % 60; };
  const redraw = () => {
    const boxes = [];
    let depth = 0;
    (function walk(f, x, y) {
      boxes.push({value: [x, x + f.weight, y], f});
      depth = Math.max(depth, y);
      for (const i of f.in || []) { walk(i, x, y + 1); x += i.weight; }
    })(top, 0, 0);
    el.style.height = Math.max(160, Math.min(700, (depth + 1) * 18 + 20)) + 'px';
    c.resize();
    label(el, 'Flame graph of ' + tree.weight + ' samples, ' + boxes.length + ' boxes');
    c.setOption(options('', {
      grid: {left: 5, right: 5, top: 5, bottom: 5}, xAxis: {type: 'value', min: 0, max: top.weight, show: false}, yAxis: {type: 'value', min: 0, max: depth + 1, inverse: true, show: false},
      tooltip: {formatter: p => { const f = boxes[p.dataIndex].f; return f.name + '\n' + (f.where || '') + '\n' + f.weight + ' of ' + tree.weight + ' samples, ' + (100 * f.weight / tree.weight).toFixed(1) + ' %'; }},
      series: [{type: 'custom', data: boxes, encode: {x: [0, 1], y: 2}, renderItem: (p, api) => {
        const a = api.coord([api.value(0), api.value(2)]), b = api.coord([api.value(1), api.value(2) + 1]), w = b[0] - a[0], f = boxes[p.dataIndex].f;
        return {type: 'rect', shape: {x: a[0], y: a[1], width: Math.max(0.5, w - 0.5), height: Math.max(1, b[1] - a[1] - 1)}, style: {fill: 'hsl(' + hue(f.name) + ',' + (isDark() ? '60%,40%)' : '85%,72%)')},
          textContent: w > 40 ? {type: 'text', style: {text: f.name, fill: isDark() ? '#fff' : '#1c2128', width: w - 6, overflow: 'truncate', fontSize: 11}} : undefined, textConfig: {position: 'insideLeft'}};
      }}],
    }), true);
    c.off('click');
    c.on('click', p => { const f = boxes[p.dataIndex].f; top = f === top ? tree : f; redraw(); });
  };
  redraw();
}

// ---- the page

const elements = [...document.querySelectorAll('.chart')];
const watcher = new IntersectionObserver(list => { for (const x of list) if (x.isIntersecting) { watcher.unobserve(x.target); draw(x.target); } }, {rootMargin: '200px'});
elements.forEach(e => watcher.observe(e));
let waiting = 0, width = innerWidth;
addEventListener('resize', () => { if (innerWidth === width) return; width = innerWidth; cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => { for (const e of charts.keys()) draw(e); }); });
addEventListener('beforeprint', () => { for (const e of elements) charts.has(e) ? charts.get(e).resize() : draw(e); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { for (const e of charts.keys()) draw(e); });

const theme = document.getElementById('theme');
theme.hidden = false;
theme.onclick = () => { root.dataset.theme = isDark() ? 'light' : 'dark'; for (const e of charts.keys()) draw(e); };

for (const run of document.querySelectorAll('[data-run]')) {
  const filter = run.querySelector('.filter'), timeline = run.querySelector('[data-chart=timeline]');
  run.querySelector('.tools').hidden = false;
  const refilter = () => {
    const all = runOf(timeline).timeline.lanes, n = all.filter(l => filterOf(timeline)(l.name)).length;
    run.querySelector('.filtered').textContent = filter.value ? n + ' of ' + all.length + ' lanes' : '';
    watcher.unobserve(timeline);
    draw(timeline);
  };
  filter.addEventListener('input', refilter);
  for (const b of run.querySelectorAll('.key')) b.onclick = () => { filter.value = '"' + b.dataset.object + '"'; refilter(); timeline.scrollIntoView({block: 'center'}); timeline.focus({preventScroll: true}); timeline.first(); };
}
for (const b of document.querySelectorAll('.copy')) { b.hidden = !navigator.clipboard; b.onclick = () => navigator.clipboard.writeText(b.dataset.text).then(() => { b.textContent = 'Copied'; }); }

if ('live' in document.body.dataset) {
  let known;
  setInterval(async () => {
    const now = await fetch('version').then(r => r.ok ? r.text() : known).catch(() => known);
    if (known !== undefined && now !== known) location.reload();
    known = now;
  }, 2000);
  // What its reader has chosen outlives a reload: the filter, and what part of the time the whole run's timeline shows.
  document.querySelectorAll('.filter').forEach((f, i) => {
    f.value = sessionStorage.getItem('filter' + i) || '';
    f.addEventListener('input', () => sessionStorage.setItem('filter' + i, f.value));
  });
  keep = (el, c) => {
    if (el.dataset.chart !== 'timeline') return;
    const name = 'window' + el.closest('[data-run]').dataset.run, was = JSON.parse(sessionStorage.getItem(name));
    if (was) c.dispatchAction({type: 'dataZoom', dataZoomIndex: 0, startValue: was[0], endValue: was[1]});
    c.on('datazoom', () => {
      const z = c.getOption().dataZoom[0];
      if (z.start <= 0 && z.end >= 100) sessionStorage.removeItem(name); // all, what is yet to come too
      else sessionStorage.setItem(name, JSON.stringify([z.startValue, z.endValue]));
    });
  };
}
})();
