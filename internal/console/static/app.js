// The console's script: keeps a page fresh, draws its charts from its own tables, follows the live view.
// Every page reads the same without it; only charts and Live need it. No build, no dependency but uPlot.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const $ = (s, at = document) => at.querySelector(s);
  const $$ = (s, at = document) => [...at.querySelectorAll(s)];
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const comma = (n) => n.toLocaleString("en-US");

  // ---- stale banner ---------------------------------------------------------------------------------
  const banner = $("#stale");
  let lastGood = Date.now();
  const stale = (why) => {
    if (!banner) return;
    const at = new Date(lastGood).toISOString().slice(11, 19);
    banner.textContent = `${why} What you see is from ${at} UTC.`;
    banner.hidden = false;
  };
  const fresh = () => {
    lastGood = Date.now();
    if (banner) banner.hidden = true;
  };

  // ---- charts ---------------------------------------------------------------------------------------
  const plots = new Map(); // figure id → {u, box, watch}

  const read = (figure) => {
    const heads = $$("thead th", figure).slice(1);
    const rows = $$("tbody tr", figure);
    const data = [rows.map((r) => +r.dataset.x)];
    heads.forEach((_, i) => data.push(rows.map((r) => { const v = r.children[i + 1].dataset.v; return v === undefined ? null : +v; })));
    const series = heads.map((h) => ({ name: h.textContent, class: h.dataset.class }));
    const labels = rows.map((r) => r.children[0].firstChild.textContent.trim() + ("running" in r.dataset ? ", running" : ""));
    return { data, series, labels, running: rows.length > 0 && "running" in rows.at(-1).dataset };
  };

  // Areas stand on one another, so that the top edge is the sum; the tip still says each number by itself.
  const stack = (data) => {
    const out = [data[0]];
    let below = data[0].map(() => 0);
    for (let i = 1; i < data.length; i++) {
      below = data[i].map((v, j) => v === null ? null : v + below[j]);
      out.push(below);
    }
    return out;
  };

  const draw = (figure) => {
    drop(figure.id);
    const box = $(".plot", figure);
    const { data, series, labels, running } = read(figure);
    if (!data[0].length) return;
    const color = (s) => css("--c" + s.class.slice(1));
    const card = css("--card");
    // A wash that hides what is below it: areas that shine through one another would all turn grey.
    const wash = (hex) => {
      const part = (h, i) => parseInt(h.slice(1 + 2 * i, 3 + 2 * i), 16);
      return "rgb(" + [0, 1, 2].map((i) => Math.round(part(hex, i) * 0.22 + part(card, i) * 0.78)).join(" ") + ")";
    };
    // The running step has a width too: the last number is drawn to its end.
    const step = +figure.dataset.step;
    const ends = data.map((col, i) => col.concat(i ? col.at(-1) : col.at(-1) + step));
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    const show = (u) => {
      if (u.cursor.idx == null || u.cursor.left < 0) { tip.hidden = true; return; }
      // Numbers hold for the step that begins at or before the cursor, not for the nearest edge.
      const at = u.posToVal(u.cursor.left, "x");
      const i = Math.min(labels.length - 1, Math.max(0, Math.floor((at - data[0][0]) / step)));
      tip.replaceChildren();
      const head = document.createElement("b");
      head.textContent = labels[i];
      tip.append(head);
      series.forEach((s, k) => {
        const line = document.createElement("span");
        const dot = document.createElement("span");
        dot.className = "dot " + s.class;
        const value = document.createElement("i");
        value.textContent = data[k + 1][i] === null ? "not known" : comma(data[k + 1][i]);
        line.append(dot, s.name, value);
        tip.append(line);
      });
      tip.hidden = false;
      const most = u.over.clientWidth - tip.offsetWidth - 12;
      const x = u.cursor.left + 14;
      tip.style.left = Math.max(0, x > most ? u.cursor.left - tip.offsetWidth - 14 : x) + "px";
      tip.style.top = "8px";
    };
    // The running step is drawn pale, behind a dashed line: its numbers still grow.
    const pale = (u) => {
      if (!running) return;
      const from = u.valToPos(data[0].at(-1), "x", true), to = u.valToPos(data[0].at(-1) + step, "x", true);
      const { top, height } = u.bbox, c = u.ctx;
      c.save();
      c.globalAlpha = 0.6;
      c.fillStyle = card;
      c.fillRect(from, top, to - from, height);
      c.globalAlpha = 1;
      c.strokeStyle = css("--edge");
      c.setLineDash([4, 4]);
      c.beginPath();
      c.moveTo(from, top);
      c.lineTo(from, top + height);
      c.stroke();
      c.restore();
      u.root.dataset.pale = Math.round(to - from);
    };
    const axis = {
      stroke: css("--soft"), font: "12px Inter, system-ui, sans-serif",
      grid: { stroke: css("--line"), width: 1, show: true }, ticks: { show: false },
    };
    const pad = (n) => String(n).padStart(2, "0");
    const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const when = (t) => {
      const d = new Date(t * 1000);
      const midnight = d.getUTCHours() === 0 && d.getUTCMinutes() === 0;
      return step >= 86400 || midnight ? `${d.getUTCDate()} ${months[d.getUTCMonth()]}` : `${pad(d.getUTCHours())}:${pad(d.getUTCMinutes())}`;
    };
    const options = {
      width: Math.max(200, box.clientWidth), height: 250, padding: [10, 18, 0, 0],
      tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "UTC"),
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: { y: { range: (_, lo, hi) => [0, Math.max(4, hi * 1.08)] } },
      axes: [
        { ...axis, size: 34, space: 64, values: (_, ticks) => ticks.map(when) },
        { ...axis, size: 56, values: (_, ticks) => ticks.map((v) => v % 1 ? "" : v >= 1e6 ? v / 1e6 + "M" : v >= 1e4 ? v / 1e3 + "k" : comma(v)) },
      ],
      series: [{}].concat(series.map((s) => ({
        label: s.name, stroke: color(s), fill: wash(color(s)), width: 1.5, points: { show: false },
        paths: uPlot.paths.stepped({ align: 1 }),
      })).reverse()),
      hooks: { setCursor: [show], draw: [pale] },
    };
    const stacked = stack(ends);
    const u = new uPlot(options, [stacked[0], ...stacked.slice(1).reverse()], box);
    u.over.append(tip);
    const watch = new ResizeObserver(() => u.setSize({ width: Math.max(200, box.clientWidth), height: 250 }));
    watch.observe(box);
    plots.set(figure.id, { u, watch });
  };

  const drop = (id) => {
    const old = plots.get(id);
    if (!old) return;
    old.watch.disconnect();
    old.u.destroy();
    plots.delete(id);
  };
  const drawAll = (at = document) => { if (window.uPlot) $$("[data-chart]", at).forEach(draw); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());

  // ---- refresh: the same page again, region by region -----------------------------------------------
  const every = +document.body.dataset.refresh;
  const busy = (el) => el.contains(document.activeElement) || (() => {
    const s = getSelection();
    return s && !s.isCollapsed && el.contains(s.anchorNode);
  })();

  const swap = (now, next) => {
    if (busy(now)) return;
    const key = (el) => { const c = el.cloneNode(true); $$(".plot", c).forEach((p) => p.replaceChildren()); $$("details", c).forEach((d) => d.removeAttribute("open")); $$("[data-csv]", c).forEach((b) => b.remove()); return c.innerHTML; };
    if (key(now) === key(next)) return;
    const open = new Map($$("details", now).map((d) => [d.id, d.open]));
    $$("[data-chart]", now).forEach((f) => drop(f.id));
    const heights = $$(".plot", now).map((p) => p.offsetHeight);
    now.replaceChildren(...document.importNode(next, true).childNodes);
    $$(".plot", now).forEach((p, i) => { if (heights[i]) p.style.minHeight = heights[i] + "px"; });
    $$("details", now).forEach((d) => { if (open.has(d.id)) d.open = open.get(d.id); });
    drawAll(now);
    addCSV(now);
  };

  const refresh = async () => {
    try {
      const r = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store", signal: AbortSignal.timeout(4000) });
      if (r.redirected && new URL(r.url).pathname === "/login") { location.reload(); return; }
      if (!r.ok) { stale(`The server answered ${r.status}.`); return; }
      const page = new DOMParser().parseFromString(await r.text(), "text/html");
      $$("[data-live]").forEach((el) => { const next = page.getElementById(el.id); if (next) swap(el, next); });
      const clock = $(".foot time"), tick = $(".foot time", page);
      if (clock && tick) clock.textContent = tick.textContent;
      fresh();
    } catch {
      stale("The server does not answer.");
    }
  };
  if (every > 0) setInterval(() => { if (!document.hidden) refresh(); }, every * 1000);

  // ---- copy: a text that a button carries --------------------------------------------------------------
  document.addEventListener("click", async (e) => {
    const button = e.target.closest("[data-copy]");
    if (!button) return;
    let done = true;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      // Without permission for the clipboard the text is shown, marked, to be copied by hand.
      done = false;
      const box = document.createElement("textarea");
      box.value = button.dataset.copy;
      box.readOnly = true;
      box.setAttribute("aria-label", "Text for the sender");
      button.after(box);
      box.select();
    }
    const word = button.textContent;
    button.textContent = done ? "Copied" : "Copy this text";
    $("#copied").textContent = done ? "Copied." : "Copy the marked text.";
    if (done) setTimeout(() => { button.textContent = word; button.blur(); }, 1500);
  });

  // ---- CSV: every table as a file ---------------------------------------------------------------------
  // What a spreadsheet would run as a formula begins with an apostrophe; numbers have no commas.
  const csvCell = (el) => {
    const copy = el.cloneNode(true);
    $$(".below, br", copy).forEach((b) => b.before(" "));
    let text = copy.textContent.replace(/\s+/g, " ").trim();
    if (/^-?\d{1,3}(,\d{3})+(\.\d+)?$/.test(text)) text = text.replaceAll(",", "");
    if (/^[\p{Cf}\s]*([=+@＝＋＠]|[-－](?![\d.,]+( [A-Za-z%]+)?$))/u.test(text)) text = "'" + text;
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const addCSV = (at = document) => $$(".scroll", at).forEach((box) => {
    if (box.closest("[data-tail]")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link csv";
    button.dataset.csv = "";
    button.textContent = "CSV";
    button.setAttribute("aria-label", `${box.getAttribute("aria-label")}: download as CSV`);
    box.after(button);
  });
  document.addEventListener("click", (e) => {
    const button = e.target.closest("[data-csv]");
    if (!button) return;
    const box = button.previousElementSibling;
    const lines = $$("tr", box).map((row) => [...row.children].map(csvCell).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
    link.download = box.getAttribute("aria-label").toLowerCase().replace(/[^a-z0-9]+/g, "-") + ".csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    button.blur();
  });

  // ---- live -----------------------------------------------------------------------------------------
  const tail = $("[data-tail]");
  if (tail) {
    const rows = $("[data-tail-rows]", tail), empty = $("[data-tail-empty]", tail);
    const state = $("[data-tail-state]", tail), pause = $("[data-tail-pause]", tail);
    let paused = false, held = [];
    const say = (word, cls) => { state.textContent = word; state.className = "pill " + cls; };
    const cell = (text, cls) => { const td = document.createElement("td"); td.textContent = text; if (cls) td.className = cls; return td; };
    const pills = (list) => {
      const td = document.createElement("td");
      list.forEach((p) => { const s = document.createElement("span"); s.className = "pill " + p.class; s.textContent = p.word; td.append(s, " "); });
      return td;
    };
    const add = (line) => {
      empty.hidden = true;
      const tr = document.createElement("tr");
      tr.className = "fresh";
      const about = document.createElement("td");
      about.className = "about";
      about.append(document.createElement("span"));
      about.firstChild.textContent = line.about;
      const event = document.createElement("td");
      const type = document.createElement("b"), dataset = document.createElement("span");
      type.textContent = line.type;
      dataset.className = "soft small below";
      dataset.textContent = line.dataset;
      event.append(type, dataset);
      tr.append(cell(line.time, "nowrap"), event, pills(line.outcome), cell(line.identifiers, "nowrap"), cell(line.value, "nowrap"), about);
      rows.prepend(tr);
      while (rows.children.length > 200) rows.lastChild.remove();
    };
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.textContent = paused ? "Go on" : "Pause";
      if (!paused) { held.forEach(add); held = []; }
      say(paused ? "paused" : "following", paused ? "warn" : "ok");
    });
    say("connecting", "");
    const source = new EventSource(tail.dataset.tail);
    source.onopen = () => { fresh(); if (!paused) say("following", "ok"); };
    source.onmessage = (m) => {
      fresh();
      const line = JSON.parse(m.data);
      if (paused) { held.push(line); held = held.slice(-200); } else add(line);
    };
    source.addEventListener("beat", fresh);
    source.addEventListener("replaced", () => { source.close(); say("too many windows follow: this one stopped, reload to go on", "warn"); });
    source.onerror = () => { say("disconnected", "bad"); stale("The server does not answer."); };
  }

  // ---- try: the answer without giving the text back to the page ---------------------------------------
  const form = $("[data-try]");
  if (form) {
    form.addEventListener("submit", async (e) => {
      e.preventDefault();
      const answer = $("#answer");
      answer.setAttribute("aria-busy", "true");
      try {
        const r = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { Accept: "text/html" } });
        const page = new DOMParser().parseFromString(await r.text(), "text/html");
        const next = page.getElementById("answer");
        if (next) answer.replaceChildren(...document.importNode(next, true).childNodes);
        fresh();
      } catch {
        stale("The server does not answer.");
      }
      answer.removeAttribute("aria-busy");
    });
  }

  // On a narrow screen the menu scrolls: begin at the page we are on.
  const current = $(".side [aria-current]");
  if (current) current.scrollIntoView({ inline: "center", block: "nearest" });

  drawAll();
  addCSV();
})();
