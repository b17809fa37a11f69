(function () {
  "use strict";
  var FEW_ROWS = 4;  // shorter tables can be sorted, but need no filter

  function make(name, className, text) {
    var element = document.createElement(name);
    if (className) { element.className = className; }
    if (text !== undefined) { element.textContent = text; }
    return element;
  }

  // A column has one unit, so that the number before it orders its cells.
  function numberOf(text) {
    var plain = text.replace(/[\u202f\u00a0\s,]/g, "").replace("\u2212", "-");
    return /^-?(\d|\.\d)/.test(plain) ? parseFloat(plain) : plain === "\u221e" ? Infinity : NaN;
  }

  // A heading "n=2^20" is ordered by its number, "n=64, dtype=float32" by its first one.
  function rankOf(text) {
    var found = /=(\d[\d.]*)(?:\^(\d+))?/.exec(text);
    return found ? Math.pow(parseFloat(found[1]), found[2] ? parseInt(found[2], 10) : 1) : numberOf(text);
  }

  function cellAt(row, column) {
    for (var i = 0, place = 0; i < row.cells.length; i += 1) {
      place += row.cells[i].colSpan;
      if (column < place) { return row.cells[i]; }
    }
    return null;
  }

  function valueAt(row, column) {
    var cell = cellAt(row, column);
    if (!cell || cell.colSpan > 1 || cell.classList.contains("missing") || cell.classList.contains("failed")) { return null; }
    var text = (cell.querySelector(".value") || cell).textContent.trim();
    var number = column === 0 ? rankOf(text) : numberOf(text);
    return { text: text, number: number };
  }

  function compare(a, b, sign) {
    if (!a || !b) { return a ? -1 : b ? 1 : 0; }  // what has no value stays last
    var both = !isNaN(a.number) && !isNaN(b.number);
    return sign * (both ? a.number - b.number || a.text.localeCompare(b.text) : a.text.localeCompare(b.text));
  }

  function sort(table, column, sign) {
    var body = table.tBodies[0];
    var rows = table.originalRows.slice();
    if (sign) {
      rows.sort(function (a, b) { return compare(valueAt(a, column), valueAt(b, column), sign); });
    }
    rows.filter(function (row) { return !row.classList.contains("sum"); })
      .concat(rows.filter(function (row) { return row.classList.contains("sum"); }))
      .forEach(function (row) { body.appendChild(row); });
  }

  // "<5", ">=5" and "5..9" compare numbers; anything else is a part of the text.
  function fits(row, column, wanted) {
    var cell = cellAt(row, column), value = valueAt(row, column);
    var range = /^(-?[\d.]+)\s*\.\.\s*(-?[\d.]+)$/.exec(wanted), bound = /^([<>]=?)\s*(-?[\d.]+)$/.exec(wanted);
    if (!range && !bound) { return cell !== null && cell.textContent.toLowerCase().indexOf(wanted.toLowerCase()) >= 0; }
    if (!value || isNaN(value.number)) { return false; }
    if (range) { return value.number >= parseFloat(range[1]) && value.number <= parseFloat(range[2]); }
    var limit = parseFloat(bound[2]);
    return bound[1][0] === "<" ? value.number < limit || (bound[1] === "<=" && value.number === limit)
      : value.number > limit || (bound[1] === ">=" && value.number === limit);
  }

  function filter(table, inputs) {
    Array.from(table.tBodies[0].rows).forEach(function (row) {
      row.hidden = !inputs.every(function (input, column) { return !input.value.trim() || fits(row, column, input.value.trim()); });
    });
  }

  function makeSortable(table, headings) {
    headings.forEach(function (heading, column) {
      var button = make("button", "sort");
      button.type = "button";
      while (heading.firstChild) { button.appendChild(heading.firstChild); }
      heading.appendChild(button);
      button.addEventListener("click", function () {
        var next = { none: "ascending", ascending: "descending", descending: "none" }[heading.getAttribute("aria-sort") || "none"];
        headings.forEach(function (each) { each.removeAttribute("aria-sort"); });
        if (next !== "none") { heading.setAttribute("aria-sort", next); }
        sort(table, column, { none: 0, ascending: 1, descending: -1 }[next]);
      });
    });
  }

  function makeFilterable(table, headings) {
    var row = make("tr", "filters"), toggle = make("button", "toggle", "Filter");
    var inputs = headings.map(function (heading) {
      var cell = make("td"), input = make("input");
      input.type = "search";
      input.placeholder = "text, <5, 2..9";
      input.setAttribute("aria-label", "Filter " + heading.textContent.trim());
      input.addEventListener("input", function () { filter(table, inputs); });
      cell.appendChild(input);
      row.appendChild(cell);
      return input;
    });
    row.hidden = true;
    toggle.type = "button";
    toggle.setAttribute("aria-expanded", "false");
    toggle.addEventListener("click", function () {
      row.hidden = !row.hidden;
      toggle.setAttribute("aria-expanded", String(!row.hidden));
      if (row.hidden) {
        inputs.forEach(function (input) { input.value = ""; });
        filter(table, inputs);
      } else { inputs[0].focus(); }
    });
    table.tHead.appendChild(row);
    table.caption.appendChild(toggle);
  }

  function enhance(table) {
    if (!table.tHead || !table.tBodies.length) { return; }
    var headings = Array.from(table.tHead.rows[table.tHead.rows.length - 1].cells);
    table.originalRows = Array.from(table.tBodies[0].rows);
    if (table.originalRows.length < 2) { return; }
    makeSortable(table, headings);
    if (table.originalRows.length >= FEW_ROWS && table.caption) { makeFilterable(table, headings); }
  }

  // A cell is [text, note, kind, share, columns], a row [heading, note, mark, cells]; what is empty at the end is left out.
  function drawCell(given) {
    var cell = make("td", given[2] || "number");
    if (given[4]) { cell.colSpan = given[4]; }
    cell.appendChild(make("span", "value", given[0]));
    if (given[3]) {
      var bar = make("span", "bar");
      bar.style.setProperty("--share", given[3]);
      bar.setAttribute("aria-hidden", "true");
      cell.appendChild(bar);
    }
    if (given[1]) { cell.appendChild(make("small", "", given[1])); }
    return cell;
  }

  function drawRow(given) {
    var row = make("tr", given[2]), heading = make("th");
    heading.scope = "row";
    heading.appendChild(make("span", "name value", given[0]));
    if (given[2]) { heading.appendChild(document.createTextNode(" ")); heading.appendChild(make("span", "mark", given[2])); }
    if (given[1]) { heading.appendChild(make("small", "", given[1])); }
    row.appendChild(heading);
    given[3].forEach(function (cell) { row.appendChild(drawCell(cell)); });
    return row;
  }

  function drawTable(given) {
    var table = make("table"), head = table.createTHead().insertRow(), body = table.createTBody();
    table.createCaption().appendChild(make("span", "", given.title));
    [[given.corner, ""]].concat(given.columns).forEach(function (column, place) {
      var heading = make("th", place ? "" : "corner", column[0]);
      heading.scope = "col";
      if (column[1]) { heading.appendChild(document.createTextNode(" ")); heading.appendChild(make("span", "unit", column[1])); }
      head.appendChild(heading);
    });
    given.rows.forEach(function (row) { body.appendChild(drawRow(row)); });
    return table;
  }

  function showProblems(data) {
    var place = document.getElementById("problem"), rows = Array.from(document.querySelectorAll("#table-problems tbody tr"));
    var buttons = rows.map(function (row, number) {
      var name = row.querySelector(".name"), button = make("button", "choose");
      button.type = "button";
      button.setAttribute("aria-controls", "problem");
      while (name.firstChild) { button.appendChild(name.firstChild); }
      name.appendChild(button);
      row.addEventListener("click", function () { show(number); });
      return button;
    });
    function show(number) {
      var scroll = make("div", "scroll"), table = drawTable(data.problems[number]);
      scroll.tabIndex = 0;
      scroll.appendChild(table);
      place.replaceChildren(scroll);
      data.problems[number].notes.forEach(function (note) { place.appendChild(make("p", "note", note)); });
      enhance(table);
      buttons.forEach(function (button, each) {
        button.setAttribute("aria-pressed", String(each === number));
        rows[each].classList.toggle("chosen", each === number);
      });
    }
    if (data.chosen !== null) { show(data.chosen); }
  }

  document.querySelectorAll(".table table").forEach(enhance);
  var problems = document.getElementById("problem-data");
  if (problems) { showProblems(JSON.parse(problems.textContent)); }
})();
