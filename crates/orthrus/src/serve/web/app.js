'use strict';
// Shows the difference of two reports, every two seconds. Names come from clients and files: they
// reach the page as text only.

const INTERVAL = 2000;
const ANSWER_TIME_MAX = 5000;
const HISTORY = 150;
const ROWS = 12;
const history = { requests: [], megabytes: [] };
let before = null;

/** Makes characters visible that steer or reorder text. */
function visible(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
    c => '\\u{' + c.codePointAt(0).toString(16) + '}');
}

function element(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = visible(text);
  if (name) made.className = name;
  return made;
}

const grown = (now, then) => (now >= then ? now - then : now);
const whole = value => value.toFixed(value < 10 && value > 0 ? 1 : 0);

function latency(seconds) {
  if (seconds === null) return '–';
  if (seconds < 0.001) return (seconds * 1e6).toFixed(0) + ' µs';
  if (seconds < 1) return (seconds * 1e3).toFixed(0) + ' ms';
  return seconds.toFixed(0) + ' s';
}

/** The upper bound of the class in which a part of the observations ends. */
function quantile(now, then, bounds, part) {
  const counts = now.map((count, at) => grown(count, then ? then[at] : 0));
  const wanted = Math.ceil(counts.reduce((sum, count) => sum + count, 0) * part);
  let sum = 0;
  for (let at = 0; at < counts.length && wanted > 0; at++) {
    sum += counts[at];
    if (sum >= wanted) return bounds[Math.min(at, bounds.length - 1)];
  }
  return null;
}

function fill(id, heads, rows) {
  const table = document.getElementById(id);
  const head = element('tr');
  heads.forEach(([title, name]) => {
    const cell = element('th', title, name);
    cell.scope = 'col';
    head.append(cell);
  });
  const body = rows.slice(0, ROWS).map(row => {
    const line = element('tr');
    row.forEach((value, at) => line.append(element('td', value, heads[at][1])));
    return line;
  });
  if (!body.length) {
    const line = element('tr');
    const cell = element('td', 'nothing at the moment', 'empty');
    cell.colSpan = heads.length;
    line.append(cell);
    body.push(line);
  }
  table.replaceChildren(head, ...body);
}

function figures(list) {
  document.getElementById('figures').replaceChildren(...list.map(([value, meaning]) => {
    const box = element('div');
    box.append(element('b', value), element('span', meaning));
    return box;
  }));
}

function curve(title, values) {
  const space = 'http://www.w3.org/2000/svg';
  const top = Math.max(1, ...values);
  const svg = document.createElementNS(space, 'svg');
  svg.setAttribute('viewBox', '0 0 ' + (HISTORY - 1) + ' 100');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', title + ', at most ' + whole(top));
  const line = document.createElementNS(space, 'polyline');
  const first = HISTORY - values.length;
  line.setAttribute('points', values.map((value, at) => (first + at) + ',' + (98 - 96 * value / top)).join(' '));
  svg.append(line);
  const box = element('figure');
  box.append(svg, element('figcaption', title + ': ' + whole(values[values.length - 1] || 0) + ', at most ' + whole(top)));
  return box;
}

function remember(values, value) {
  values.push(value);
  if (values.length > HISTORY) values.shift();
}

const spent = (flavor, stages) => stages.reduce((sum, stage) => sum + (flavor.stages[stage] || 0), 0);
const WORK = ['unwrap', 'execute', 'wrap', 'send'];
const PROTECTION = ['unwrap', 'wrap'];

function flavors(now, then, seconds) {
  const rows = [];
  let [requests, work, protection] = [0, 0, 0];
  for (const flavor of now.flavors) {
    const old = then.flavors.find(other => other.name === flavor.name) || { requests: 0, stages: {} };
    const count = grown(flavor.requests, old.requests);
    const time = grown(spent(flavor, WORK), spent(old, WORK));
    const cost = grown(spent(flavor, PROTECTION), spent(old, PROTECTION));
    requests += count; work += time; protection += cost;
    if (!flavor.requests) continue;
    const classes = now.latency_by_flavor[flavor.name] || [];
    const at = part => latency(quantile(classes, then.latency_by_flavor[flavor.name], now.latency_bounds, part));
    rows.push([flavor.name, whole(count / seconds), count ? (1e6 * time / count).toFixed(1) : '–',
      count && time && cost ? (1e6 * cost / count).toFixed(1) + ' (' + (100 * cost / time).toFixed(0) + ' %)' : '–', at(0.5), at(0.99)]);
  }
  fill('flavors', [['flavor', 'text'], ['requests/s', 'number'], ['time µs', 'number'], ['protection µs', 'number'],
    ['median', 'number'], ['p99', 'number']], rows);
  return [requests / seconds, protection / seconds, work ? protection / work : 0];
}

/** Names of counters with their growth in a second, the fastest first. */
function busiest(now, then, seconds) {
  const rates = Object.keys(now).map(name => [name, grown(now[name], then[name] || 0) / seconds]);
  return rates.filter(([, rate]) => rate > 0).sort((one, other) => other[1] - one[1]);
}

function show(now) {
  const then = before || now;
  const seconds = Math.max(0.001, now.uptime > then.uptime ? now.uptime - then.uptime : now.uptime);
  const [requests, cores, share] = flavors(now, then, seconds);
  const received = grown(now.received, then.received) / seconds / 1e6;
  const sent = grown(now.sent, then.sent) / seconds / 1e6;
  remember(history.requests, requests);
  remember(history.megabytes, received + sent);
  const states = {
    grace: 'in the grace period', draining: 'draining, no new clients', serving: 'serving',
    silent: 'silent, without contact to the cluster',
  };
  const hours = Math.floor(now.uptime / 3600);
  const up = hours >= 48 ? Math.floor(hours / 24) + ' days' : hours + ' h ' + Math.floor(now.uptime / 60 % 60) + ' min';
  const state = document.getElementById('state');
  state.textContent = visible('version ' + now.version + ', up ' + up + ', ' + (states[now.state] || now.state));
  state.className = '';
  const used = now.processor === null ? '–' : (grown(now.processor, then.processor) / seconds).toFixed(2);
  figures([
    [whole(requests), 'requests a second'], [received.toFixed(1), 'MB/s received'], [sent.toFixed(1), 'MB/s sent'],
    [used, 'cores used'], [cores.toFixed(2), 'cores for encryption (' + (100 * share).toFixed(0) + ' %)'],
    [now.resident === null ? '–' : Math.round(now.resident / 1048576) + ' MiB', 'memory'],
    [now.held.clients || 0, 'clients'], [now.held.connections || 0, 'connections'], [now.held.contexts || 0, 'Kerberos contexts'],
    [now.held.opens || 0, 'opens'], [now.held.locks || 0, 'locks'],
    [(now.held.delegations || 0) + ' / ' + (now.held.delegations_recalled || 0), 'delegations / recalled'],
  ]);
  document.getElementById('curves').replaceChildren(
    curve('requests a second', history.requests), curve('MB a second', history.megabytes));
  fill('operations', [['operation', 'text'], ['per second', 'number'], ['median', 'number'], ['p99', 'number']],
    busiest(now.operations, then.operations, seconds).map(([name, rate]) => {
      const classes = now.latency_by_operation[name] || [];
      const at = part => latency(quantile(classes, then.latency_by_operation[name], now.latency_bounds, part));
      return [name, whole(rate), at(0.5), at(0.99)];
    }));
  fill('failures', [['status', 'text'], ['per second', 'number']],
    busiest(now.failures, then.failures, seconds).map(([name, rate]) => [name, whole(rate)]));
  fill('exports', [['export', 'name'], ['requests/s', 'number'], ['MB/s in', 'number'], ['MB/s out', 'number']],
    now.exports.map(row => {
      const old = then.exports.find(other => other.export === row.export) || { requests: 0, received: 0, sent: 0 };
      const megabytes = key => grown(row[key], old[key]) / seconds / 1e6;
      return [row.export, grown(row.requests, old.requests) / seconds, megabytes('received'), megabytes('sent')];
    }).sort((one, other) => other[1] - one[1]).map(([name, rate, into, out]) => [name, whole(rate), into.toFixed(1), out.toFixed(1)]));
  fill('files', [['file', 'name'], ['requests/s, about', 'number']],
    now.files.map(row => {
      const old = then.files.find(other => other.export === row.export && other.file === row.file);
      const least = then.files.length ? then.files[then.files.length - 1].samples : 0;
      const samples = old ? old.samples : Math.min(least, row.samples);
      return [row.file, Math.max(0, row.samples - samples) * now.sampled_one_in / seconds];
    }).filter(([, rate]) => rate > 0).sort((one, other) => other[1] - one[1]).map(([name, rate]) => [name, whole(rate)]));
  fill('clients', [['client', 'text'], ['principal', 'name'], ['requests/s', 'number'], ['opens', 'number'], ['locks', 'number'],
    ['delegations', 'number'], ['silent', 'number']],
    now.clients.map(row => {
      const old = then.clients.find(other => other.id === row.id) || row;
      return [row, grown(row.requests, old.requests) / seconds];
    }).sort((one, other) => other[1] - one[1] || one[0].silent - other[0].silent).map(([row, rate]) =>
      [row.address, row.principal, row.version === '4.0' ? '–' : whole(rate), row.opens, row.locks, row.delegations, row.silent + ' s']));
  const warnings = document.getElementById('warnings');
  warnings.hidden = !now.warnings.length;
  warnings.querySelector('ul').replaceChildren(...now.warnings.map(text => element('li', text)));
  before = now;
}

async function refresh() {
  try {
    const answer = await fetch('/status.json', { cache: 'no-store', signal: AbortSignal.timeout(ANSWER_TIME_MAX) });
    if (answer.status === 401) return location.reload();
    if (!answer.ok) throw new Error('status ' + answer.status);
    show(await answer.json());
  } catch (error) {
    const state = document.getElementById('state');
    state.textContent = visible('not up to date: ' + error.message);
    state.className = 'stale';
  }
  setTimeout(refresh, INTERVAL);
}

refresh();
