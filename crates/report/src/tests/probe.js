(() => {
  const all = (root, what) => [...root.querySelectorAll(what)];
  const text = element => element.textContent.replace(/\s+/g, ' ').trim();
  const box = element => { const r = element.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; };
  const middle = element => { const r = element.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; };
  const scrolls = element => !!element.closest('.scroll');
  const width = window.innerWidth;

  // Colours, as WCAG 2.1 defines contrast.
  const parse = colour => { const n = colour.match(/[\d.]+/g); return n ? n.map(Number) : null; };
  const linear = c => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const luminance = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const contrast = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const ground = element => {
    for (let e = element; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c && (c.length < 4 || c[3] > 0)) return c;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const tell = (element, colour, least) => {
    const c = parse(colour);
    if (!c) return;
    const found = contrast(c, ground(element));
    if (found < least) faint.push(`${element.tagName}.${element.getAttribute('class') || ''} "${text(element).slice(0, 30)}" ${colour} ${found.toFixed(2)}`);
  };
  const own = e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  all(document, 'main *').filter(e => own(e) && !['TITLE', 'DESC', 'STYLE'].includes(e.tagName.toUpperCase())).forEach(e => {
    const style = getComputedStyle(e);
    const large = parseFloat(style.fontSize) >= 24;
    tell(e, e instanceof SVGElement ? style.fill : style.color, large ? 3 : 4.5);
  });
  all(document, 'path.line, path.limit, path.whisker, svg path.published, path.base').forEach(e => tell(e, getComputedStyle(e).stroke, 3));
  all(document, 'rect.bar:not(.client):not(.unsure), g.mark:not(.unsure) > *').forEach(e => tell(e, getComputedStyle(e).fill, 3));

  const charts = all(document, 'figure').map(figure => ({
    title: text(figure.querySelector('figcaption')),
    caption: all(figure, '.caption').map(text).join(' '),
    kind: figure.querySelector('svg')?.getAttribute('class') || '',
    named: all(figure, ':scope > svg').every(svg => svg.querySelector('title') && svg.querySelector('desc') && text(svg.querySelector('desc'))),
    yticks: all(figure, '.ytick').map(e => [text(e), middle(e)[1]]),
    xticks: all(figure, '.xtick').map(e => [text(e), middle(e)[0]]),
    marks: all(figure, 'g.mark').map(e => ({ ...e.dataset, at: middle(e), unsure: e.classList.contains('unsure') })),
    bars: all(figure, 'rect.bar').map(e => ({ ...e.dataset, width: e.getBoundingClientRect().width, client: e.classList.contains('client'), unsure: e.classList.contains('unsure') })),
    base: figure.querySelector('path.base') ? middle(figure.querySelector('path.base'))[0] - figure.querySelector('svg').getBoundingClientRect().left : null,
    published: all(figure, 'path.published').map(e => e.dataset.value),
    values: all(figure, 'text.value').map(text),
    faints: all(figure, 'text.faint').map(text),
    ends: all(figure, '.row:not(.axis)').map(row => [text(row.querySelector('span')), text(row.querySelector('.end'))]),
    limits: all(figure, '.limit').map(e => [e.dataset.value, middle(e)[1]]),
    limit_names: all(figure, '.limit-name').map(text),
  }));
  // Labels of an axis that lie over each other.
  const overlapping = all(document, 'figure svg').flatMap(svg => {
    const labels = all(svg, 'text.tick:not(.ytick)').map(e => [text(e), e.getBoundingClientRect()]);
    return labels.flatMap(([one, a], i) => labels.slice(i + 1).filter(([, b]) =>
      a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom).map(([other]) => `${one} | ${other}`));
  });
  // Tables that scroll without a sign of it, or lose their first column by it.
  const unsteady = all(document, '.scroll').filter(e => e.scrollWidth > e.clientWidth + 1).filter(e => {
    const heads = all(e, 'tbody th[scope=row]');
    const before = heads.map(h => h.getBoundingClientRect().left);
    const sign = getComputedStyle(e).backgroundImage.includes('gradient');
    e.scrollLeft = 60;
    const stays = heads.every((h, i) => Math.abs(h.getBoundingClientRect().left - before[i]) < 1.5);
    const room = heads.every(h => h.getBoundingClientRect().width < 0.75 * e.clientWidth);
    e.scrollLeft = 0;
    return !(sign && stays && room);
  }).map(e => e.getAttribute('aria-label'));
  const rows = table => all(table, 'tbody tr').map(row => [...row.children].map(text));
  const tables = all(document, 'table:not(.all)').map(table => ({
    title: text(table.closest('section').querySelector('h2')),
    head: all(table, 'thead tr').map(row => [...row.children].map(text)),
    rows: rows(table),
  }));
  const cases = all(document, 'table.all tr[data-group]').map(row => ({
    group: row.dataset.group, side: row.dataset.side,
    cells: [...row.children].map(text),
    dots: all(row, 'circle').map(e => [e.getAttribute('class'), parseFloat(e.getAttribute('cy'))]),
  }));
  return {
    headline: text(document.querySelector('h1')),
    empty: all(document, 'main svg').filter(e => { const b = box(e); return !(b[2] > 0 && b[3] > 0); }).length,
    odd: all(document, 'main svg').filter(e => /NaN|Infinity|undefined|[" ]inf[" ]/.test(e.outerHTML)).length,
    wide: document.documentElement.scrollWidth > width,
    beyond: all(document, 'main *').filter(e => !scrolls(e) && !(e instanceof SVGElement) && e.getBoundingClientRect().right > width + 1).map(e => e.tagName + ' ' + text(e).slice(0, 40)),
    cut: all(document, 'table').filter(e => e.getBoundingClientRect().right > width + 1).map(e => text(e).slice(0, 40)),
    broken: all(document, 'tbody tr').filter(e => getComputedStyle(e).breakInside !== 'avoid').length,
    small: all(document, 'svg text').filter(e => !e.closest('.dots')).map(e => parseFloat(getComputedStyle(e).fontSize) * (e.getScreenCTM()?.a ** 2 + e.getScreenCTM()?.b ** 2) ** 0.5).reduce((a, b) => Math.min(a, b), 99),
    unscoped: all(document, 'th:not([scope])').length,
    sections: all(document, 'section > h2').map(text),
    faint, overlapping, unsteady, charts, tables, cases,
  };
})()
