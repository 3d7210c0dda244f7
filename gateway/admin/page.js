'use strict';
// Paths and names come from clients, so the page inserts every text by textContent, which can't add HTML.

const $ = id => document.getElementById(id);

function make(tag, name, ...inside) {
  const e = document.createElement(tag);
  if (name) e.className = name;
  e.append(...inside);
  return e;
}

// Sets a text only if it has changed. So the layout does not move, and the user's selection stays.
function say(e, text) {
  text = String(text);
  if (e.textContent !== text) e.textContent = text;
}

const number = n => n == null ? '–' : Math.round(n).toLocaleString('en').replaceAll(',', '\u202f');

function time(ms) {
  if (ms == null) return '–';
  if (ms > 0 && ms < 1) return '< 1 ms';
  if (ms < 1000) return Math.round(ms) + ' ms';
  const s = ms / 1000;
  if (s < 10) return s.toFixed(1).replace('.0', '') + ' s';
  if (s < 60) return Math.floor(s) + ' s';
  const two = (large, a, small, b) => Math.floor(large) + a + (small >= 1 ? ' ' + Math.floor(small) + b : '');
  if (s < 3600) return two(s / 60, ' m', s % 60, ' s');
  if (s < 172800) return two(s / 3600, ' h', s % 3600 / 60, ' m');
  return Math.floor(s / 86400) + ' d';
}

function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let u = 0;
  while (n >= 1024 && u < units.length - 1) { n /= 1024; u++; }
  return (u === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + ' ' + units[u];
}

async function change(method, path, question) {
  if (question && !confirm(question)) return;
  const answer = await fetch(path, { method, headers: { 'X-Canigo-Admin': '1' } });
  if (answer.status === 401) return start();
  if (!answer.ok) alert((await answer.text()).trim());
}

// Makes a table whose rows are kept by their key. `columns`: [title, class, fill(cell, item, index)]. The roles stay
// when a narrow window shows the rows as blocks.
function table(title, columns, key, style) {
  const part = (tag, role, name, ...inside) => {
    const e = make(tag, name, ...inside);
    e.setAttribute('role', role);
    return e;
  };
  const heads = columns.map(([name, style]) => part('th', 'columnheader', style, name));
  const body = part('tbody', 'rowgroup');
  const root = part('table', 'table', style, make('caption', '', title),
    part('thead', 'rowgroup', '', part('tr', 'row', '', ...heads)), body);
  const rows = new Map();
  const update = items => {
    const seen = new Set();
    items.forEach((item, i) => {
      const k = key(item, i);
      seen.add(k);
      let row = rows.get(k);
      if (!row) {
        row = part('tr', 'row');
        for (const [name, style] of columns) {
          const cell = part('td', 'cell', style);
          cell.dataset.label = name;
          row.append(cell);
        }
        rows.set(k, row);
      }
      columns.forEach(([, , fill], c) => fill(row.cells[c], item, i));
      if (body.rows[i] !== row) body.insertBefore(row, body.rows[i] || null);
    });
    for (const [k, row] of rows) {
      if (!seen.has(k)) { row.remove(); rows.delete(k); }
    }
  };
  return { root, update };
}

// Makes a table that can be folded. Its title has the number of rows. `nothing` is shown while the table is empty.
function fold(title, t, nothing, open) {
  const count = make('b', '', title);
  const more = make('span', 'muted');
  const none = make('p', 'none', nothing);
  const box = make('div', 'scroll', t.root);
  box.tabIndex = 0;
  box.setAttribute('role', 'region');
  box.setAttribute('aria-label', title);
  const root = make('details', '', make('summary', '', count, ' ', more), none, box);
  root.open = open;
  const update = (items, all, of) => {
    say(more, all > items.length ? `${number(all)}, the first ${items.length} are shown` : of ? of : number(all));
    none.hidden = items.length > 0;
    box.hidden = items.length === 0;
    t.update(items);
  };
  return { root, update };
}

// Puts two lines into a cell: the main text, and the details.
function lines(cell, first, second) {
  if (!cell.firstChild) cell.append(make('div', 'line mono'), make('div', 'line'));
  say(cell.children[0], first);
  say(cell.children[1], second);
  if (cell.title !== first) cell.title = first;
}

const text = what => (cell, item, i) => say(cell, what(item, i));
const dots = (...parts) => parts.filter(p => p).join(' · ');
const called = r => r.method ? `${r.method} ${r.path}` : 'it has just gone';

function bar(cell, part, debt) {
  if (!cell.firstChild) cell.append(make('div', 'track', make('i')));
  cell.firstChild.classList.toggle('debt', debt);
  cell.firstChild.firstChild.style.width = Math.max(0, Math.min(100, 100 * part)).toFixed(1) + '%';
}

function end(cell, r) {
  if (!cell.firstChild) {
    const b = make('button', 'quiet', 'End');
    cell.append(b);
    b.addEventListener('click', () =>
      change('DELETE', '/api/requests/' + encodeURIComponent(b.dataset.id), `End ${b.dataset.what}?`));
  }
  const b = cell.firstChild;
  b.hidden = !r.id;
  b.dataset.id = r.id;
  b.dataset.what = called(r);
  const label = 'End ' + called(r);
  if (b.ariaLabel !== label) b.ariaLabel = label;
}

const speed = l => l.period_s
  ? `${number(l.limit)} ${l.unit} in ${time(1000 * l.period_s)}` : `${number(l.limit)} at once`;

const limitColumns = [
  ['Limit', '', (cell, l) => {
    cell.parentNode.classList.toggle('binds', l.binds);
    lines(cell, l.name, speed(l));
  }],
  ['Level', 'level', (cell, l) => bar(cell, Math.max(l.level < 0 ? .02 : 0, Math.abs(l.level) / Math.max(1, l.burst)),
    l.level < 0)],
  ['There now', 'num amount', (cell, l) => lines(cell, number(l.level), 'of ' + number(l.burst))],
  ['Has bound', 'num wide', text(l => time(l.binding_s ? 1000 * l.binding_s : null))]];

const classColumns = [
  ['Class', '', text(c => c.name)],
  ['Waiting', 'num', text(c => number(c.waiting))],
  ['Oldest', 'num', text(c => time(c.oldest_ms))],
  ['p50', 'num', text(c => c.granted ? time(c.wait_p50_ms) : '–')],
  ['p99', 'num', text(c => c.granted ? time(c.wait_p99_ms) : '–')],
  ['Granted', 'num wide', text(c => number(c.granted))]];

const waiterColumns = [
  ['#', 'index', text((w, i) => i + 1)],
  ['Request', 'what', (cell, w) => lines(cell, called(w), dots(w.tenant, w.class, w.targets && 'for ' + w.targets.join(', '), w.tokens != null &&
    number(w.tokens) + ' tokens', w.attempts && 'after attempt ' + w.attempts, w.id))],
  ['Waits for', 'num', text(w => w.waits_for || '–')],
  ['Waited', 'num', text(w => time(w.waited_ms))],
  ['At least', 'num', text(w => time(w.estimate_ms || null))],
  ['', 'act', end]];

const runningColumns = [
  ['Request', 'what', (cell, r) => lines(cell, called(r), dots(r.target, r.tenant, r.class, r.attempts > 1 &&
    'attempt ' + r.attempts, r.id))],
  ['Status', 'code', text(r => r.status || '–')],
  ['First byte', 'num wide', text(r => time(r.first_byte_ms))],
  ['Bytes', 'num', (cell, r) => lines(cell, bytes(r.bytes_out), bytes(r.bytes_in) + ' in')],
  ['Since', 'num', text(r => time(r.age_ms))],
  ['', 'act', end]];

// Puts a line for each limit into a cell.
function levels(cell, limits) {
  while (cell.children.length > limits.length) cell.lastChild.remove();
  limits.forEach((l, i) => {
    if (!cell.children[i]) cell.append(make('div', 'line'));
    say(cell.children[i], `${l.name}: ${number(l.level)} of ${number(l.burst)}`);
  });
}

const tenantColumns = [
  ['Tenant', '', (cell, t) => lines(cell, t.name, dots('weight ' + t.weight, t.held_back && t.paused_ms == null && 'at its own limit',
    t.paused_ms != null && `paused for ${time(t.paused_ms)}`))],
  ['Own limits', '', (cell, t) => levels(cell, t.limits)],
  ['Waiting', 'num', text(t => number(t.waiting))],
  ['Running', 'num', text(t => number(t.running))],
  ['Granted', 'num wide', text(t => number(t.granted))]];

const causes = { operator: 'an operator', upstream: 'its upstream', breaker: 'the circuit breaker', key: 'its key, which was refused', failures: 'its failures' };
const quotaText = p => `a used-up quota${p.model ? ' for ' + p.model : ''}${p.tenant ? ' of ' + p.tenant : ''}, as ${p.request} was told (${p.quota})`;

// Puts into a cell the buttons that resume and pause a target.
function hold(cell, t) {
  for (const verb of cell.firstChild ? [] : ['Resume', 'Pause']) {
    const b = make('button', 'quiet', verb);
    cell.append(b);
    b.addEventListener('click', () => change('POST', b.dataset.path,
      verb === 'Pause' ? `Pause ${b.dataset.name}? Its requests go to other targets, or wait.` : ''));
  }
  const [resume, pause] = cell.children;
  resume.hidden = !t.pauses.some(p => ['operator', 'key', 'failures', 'quota'].includes(p.cause));
  pause.hidden = t.pauses.some(p => p.cause === 'operator');
  for (const b of cell.children) {
    b.dataset.name = t.name;
    b.dataset.path = `/api/upstreams/${encodeURIComponent(t.upstream)}/targets/${encodeURIComponent(t.name)}/${b.textContent.toLowerCase()}`;
    const label = `${b.textContent} target ${t.name}`;
    if (b.ariaLabel !== label) b.ariaLabel = label;
  }
}

const targetColumns = [
  ['Target', '', (cell, t) => lines(cell, t.name, dots(t.models.join(', '), t.prefer > 1 && 'preferred as number ' + t.prefer))],
  ['Limits', '', (cell, t) => levels(cell, t.limits)],
  ['Paused by', '', text(t => t.pauses.map(p => (p.cause === 'quota' ? quotaText(p) : causes[p.cause] || p.cause) + (p.until_ms == null ? '' : ' for ' + time(p.until_ms))).join(', ') || '–')],
  ['Running', 'num', text(t => number(t.held))],
  ['Granted', 'num wide', text(t => number(t.granted))],
  ['', 'act', hold]];

const modelColumns = [
  ['Model', '', (cell, m) => lines(cell, m.name, m.name === m.match ? '' : 'by ' + m.match)],
  ['Limits', '', (cell, m) => levels(cell, m.limits)],
  ['Running', 'num', text(m => number(m.held))],
  ['Granted', 'num wide', text(m => number(m.granted))]];

const errorColumns = [
  ['Last at', 'time', text(e => new Date(e.time).toLocaleTimeString('en-GB'))],
  ['Times', 'num', text(e => number(e.count))],
  ['Last request', 'what', (cell, e) => lines(cell, `${e.method} ${e.path}`,
    dots(e.upstream, e.tenant, e.class, e.wait_ms >= 1 ? 'waited ' + time(e.wait_ms) : '', e.id))],
  ['Answer', 'reason', (cell, e) => lines(cell, e.status || 'none', e.error || 'by the upstream')],
  ['Cause', 'cause', text(e => e.detail || (e.error ? 'none was told' : 'the upstream answered so'))]];

function pauseText(u) {
  const left = p => p.until_ms == null ? 'until it is resumed' : 'for ' + time(p.until_ms);
  return u.pauses.map(p => {
    if (p.cause === 'quota')
      return `Paused${p.tenant ? ' for ' + p.tenant : ''} until ${p.resets} (${time(p.until_ms)}): the quota` +
        `${p.model ? ' for ' + p.model : ''} is used up, as ${p.request} was told (${p.quota}).`;
    const whose = p.cause === 'upstream' && u.last_refusal && !u.last_refusal.of_tenant
      ? ` (${u.last_refusal.status} to ${u.last_refusal.request} of ${u.last_refusal.tenant})` : '';
    return `Paused${p.tenant ? ' for ' + p.tenant : ''} by ${causes[p.cause] || p.cause}${whose} ${left(p)}.`;
  }).join(' ');
}

function bindText(u) {
  if (!u.binds || u.binds === 'paused') return '';
  const what = { concurrency: 'a free place', tenant: 'the limits of their tenants', shared: 'the limit of all instances',
    tunnels: 'a tunnel', retry: 'their next attempt', 'budget of upstream': 'money of the budget',
    'budget of tenant': 'money of the budgets of their tenants', 'budget of target': 'money of a target' };
  const until = u.binds_for_ms == null ? '' : `; the next one goes in ${time(u.binds_for_ms)}`;
  return `Requests wait for ${what[u.binds] || u.binds}${until}.`;
}

function upstream(name) {
  const binds = make('span', 'pill');
  const breaker = make('span', 'pill stop');
  const toggle = make('button', 'quiet');
  const says = make('p', 'says');
  const limits = table('Limits', limitColumns, l => l.name);
  const classes = table('Classes', classColumns, c => c.name);
  const id = 'upstream-' + name;
  const title = make('h2', '', name);
  title.id = id;
  const waiters = fold('Waiting', table('Waiting', waiterColumns, (w, i) => w.id || 'gone ' + i, 'requests'), 'No request waits.', true);
  const running = fold('Running', table('Running', runningColumns, r => r.id, 'requests'), 'Nothing runs.', false);
  const targets = fold('Targets', table('Targets', targetColumns, t => t.name), 'It has one target.', true);
  targets.root.hidden = true;
  const models = fold('Models', table('Models', modelColumns, m => m.name), 'No model has limits.', true);
  models.root.hidden = true;
  const tenants = fold('Tenants', table('Tenants', tenantColumns, t => t.name), 'No tenant has come yet.', false);
  const root = make('section', 'card', make('div', 'head', title, binds, breaker, toggle), says,
    make('div', 'columns', make('div', '', limits.root), make('div', '', classes.root)),
    targets.root, models.root, waiters.root, running.root, tenants.root);
  root.setAttribute('aria-labelledby', id);
  let isPaused = false;
  toggle.addEventListener('click', () => change('POST',
    `/api/upstreams/${encodeURIComponent(name)}/${isPaused ? 'resume' : 'pause'}`,
    isPaused ? '' : `Pause ${name}? Its requests wait until you resume it, each as long as it may.`));
  const update = u => {
    isPaused = u.pauses.some(p => p.cause === 'operator' || p.cause === 'quota');
    say(toggle, isPaused ? 'Resume' : 'Pause');
    toggle.ariaLabel = `${isPaused ? 'Resume' : 'Pause'} ${name}`;
    const isOff = u.pauses.some(p => !p.tenant && !p.model);
    const state = isOff ? 'paused' : u.binds || (u.waiting ? 'waiting' : 'free');
    say(binds, state === 'free' ? 'no request waits' : state === 'paused' ? 'paused' : `${state} binds`);
    binds.className = 'pill ' + (isOff ? 'stop' : u.binds ? 'warn' : 'good');
    breaker.hidden = u.breaker.state === 'closed';
    say(breaker, 'breaker ' + u.breaker.state.replace('_', ' '));
    say(says, dots(pauseText(u), bindText(u)) || (u.waiting ? '' : 'Requests go at once.'));
    limits.update(u.limits);
    classes.update(u.classes);
    targets.root.hidden = !u.targets;
    const listed = (u.targets || []).map(t => ({ ...t, upstream: u.name }));
    targets.update(listed, listed.length);
    models.root.hidden = !u.models;
    models.update(u.models || [], (u.models || []).length);
    waiters.update(u.waiters, u.waiting, `${number(u.waiting)} of ${number(u.queue)} places`);
    running.update(u.running, u.running_in_all);
    tenants.update(u.tenants, u.tenants.length + u.tenants_left_out);
    return `${name}: ${binds.textContent}`;
  };
  return { root, update };
}

const hostColumns = [
  ['Host', '', text(h => h.name)],
  ['Waits for', 'num', text(h => h.binds || '–')],
  ['Waiting', 'num', text(h => number(h.waiting))],
  ['Running', 'num', text(h => number(h.held))]];

const dollars = n => '$' + (n >= 100 ? n.toFixed(2) : String(+n.toFixed(6)));

const budgetColumns = [
  ['Budget', '', (cell, b) => {
    cell.parentNode.classList.toggle('binds', b.left <= 0);
    lines(cell, b.name, dots(b.kind, `${dollars(b.usd)} in a ${b.per}`, b.zone, b.at === 'warn' && 'only counted'));
  }],
  ['Left', 'level', (cell, b) => bar(cell, b.left / b.usd, false)],
  ['Left now', 'num amount', (cell, b) => lines(cell, dollars(b.left), `of ${dollars(b.usd)}`)],
  ['Spent', 'num', text(b => dollars(b.spent))],
  ['Reserved', 'num', text(b => dollars(b.reserved))],
  ['Waiting', 'num', text(b => number(b.waiting))],
  ['Until', 'num', text(b => 'for ' + time(b.until_ms))]];

const cards = new Map();
const budgets = table('Budgets', budgetColumns, b => b.kind + ' ' + b.name);
const hosts = fold('Hosts', table('Hosts', hostColumns, h => h.name), 'No host was asked for.', true);
const hostWaiters = fold('Waiting', table('Waiting', waiterColumns, (w, i) => w.id || 'gone ' + i, 'requests'),
  'No request waits.', false);
const hostRunning = fold('Running', table('Running', runningColumns, r => r.id, 'requests'), 'Nothing runs.', false);
const errors = fold('Errors', table('Last errors', errorColumns,
  e => JSON.stringify([e.upstream, e.tenant, e.class, e.status, e.error, e.detail]), 'requests'), 'There was none.', true);
let told = '';
let toldAt = 0;
let generation = null;

// Tells a screen reader when the first waiting call waits for another limit, but not when numbers change.
function announce(news) {
  const now = Date.now();
  if (news === told || now - toldAt < 10000) return;
  if (told) say($('news'), news);
  told = news;
  toldAt = now;
}

function pairs(list, entries) {
  entries.forEach(([name, value], i) => {
    if (!list.children[2 * i]) list.append(make('dt', '', name), make('dd'));
    say(list.children[2 * i + 1], value);
  });
}

function render(s) {
  const forwarded = s.forwarded || [];
  const sum = of => [...s.upstreams, ...forwarded].reduce((n, u) => n + (u[of] || 0), 0);
  say($('version'), s.version);
  say($('waiting'), number(sum('waiting')));
  say($('running'), number(s.running));
  say($('connections'), number(s.connections));
  say($('kept'), bytes(s.kept_bytes));
  say($('up'), time(1000 * s.up_s));
  link(s.draining ? 'draining' : 'serving', s.draining ? 'warn' : 'good');
  const names = new Set(s.upstreams.map(u => u.name));
  for (const [name, card] of cards) {
    if (!names.has(name)) { card.root.remove(); cards.delete(name); }
  }
  const news = s.upstreams.map((u, i) => {
    if (!cards.has(u.name)) cards.set(u.name, upstream(u.name));
    const card = cards.get(u.name);
    const home = $('upstreams');
    if (home.children[i] !== card.root) home.insertBefore(card.root, home.children[i] || null);
    return card.update(u);
  });
  announce(news.join('. '));
  $('money').hidden = !s.budgets;
  budgets.update(s.budgets || []);
  $('forward').hidden = !s.forwarded;
  if (s.forwarded) {
    say($('tunnels'), `${number(s.tunnels)} tunnels are open.`);
    hosts.update(forwarded, s.forwarded_hosts);
    hostWaiters.update(s.forwarded_waiters, forwarded.reduce((n, h) => n + h.waiting, 0));
    hostRunning.update(s.forwarded_running, s.forwarded_running.length);
  }
  errors.update(s.errors, s.errors.length);
  pairs($('about'), [['Redis', !s.redis ? 'not used' : s.redis.is_connected ? 'connected' : 'away: ' + s.redis.why],
    ['Log lines dropped', number(s.log_lines_dropped)]]);
  if (s.config) say($('config'), JSON.stringify(s.config, null, 2));
  if (s.config) generation = s.loaded;
}

function link(words, style) {
  say($('link'), words);
  $('link').className = 'pill ' + style;
}

let events = null;
let again = 0;

function stop() {
  if (events) events.close();
  events = null;
  clearTimeout(again);
}

function listen() {
  stop();
  events = new EventSource('/api/events');
  events.onmessage = e => {
    const s = JSON.parse(e.data);
    render(s);
    if (s.loaded !== generation) whole();
  };
  events.onerror = () => {
    link('connection lost, trying again', 'stop');
    if (events && events.readyState === EventSource.CLOSED) again = setTimeout(start, 3000);
  };
}

async function whole() {
  const answer = await fetch('/api/state');
  if (answer.ok) render(await answer.json());
}

async function start() {
  stop();
  try {
    const session = await (await fetch('/api/session')).json();
    $('sign-in').hidden = session.signed_in;
    for (const id of ['board', 'facts', 'logout']) $(id).hidden = !session.signed_in;
    if (!session.signed_in) {
      link('signed out', '');
      $('token').focus();
      return;
    }
    await whole();
    listen();
  } catch {
    link('connection lost, trying again', 'stop');
    again = setTimeout(start, 3000);
  }
}

$('errors').append(errors.root);
$('budgets').append(budgets.root);
$('forward').append(hosts.root, hostWaiters.root, hostRunning.root);
$('form').addEventListener('submit', async e => {
  e.preventDefault();
  say($('refused'), '');
  const token = $('token').value;
  $('token').value = '';
  // A token consists of these characters only. Other characters are not allowed in a header's value, either.
  const answer = /^[\x21-\x7e]+$/.test(token)
    ? await fetch('/login', { method: 'POST', headers: { 'X-Canigo-Admin': '1', Authorization: 'Bearer ' + token } })
    : { ok: false, status: 401 };
  if (answer.ok) return start();
  say($('refused'), answer.status === 401 ? 'This is not the token.' : 'Too many wrong tokens: wait a moment.');
  $('token').focus();
});
$('logout').addEventListener('click', async () => { await change('POST', '/logout'); start(); });
$('drain').addEventListener('click', () =>
  change('POST', '/api/drain', 'Drain and stop this gateway? It takes no new requests from now on.'));
$('reload').addEventListener('click', () => change('POST', '/api/reload'));
document.addEventListener('visibilitychange', () => document.hidden ? stop() : start());
start();
