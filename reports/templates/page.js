(function () {
  "use strict";
  var specs = JSON.parse(document.getElementById("figure-data").textContent);
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  var narrow = window.matchMedia("(max-width: 640px)");
  var printing = false;

  function merge(target, extra) {
    Object.keys(extra).forEach(function (key) {
      var value = extra[key];
      if (value && typeof value === "object" && !Array.isArray(value)) {
        target[key] = merge(target[key] && typeof target[key] === "object" ? target[key] : {}, value);
      } else {
        target[key] = value;
      }
    });
    return target;
  }

  function layoutOf(spec) {
    var night = dark.matches && !printing;
    var text = night ? "#d5dadf" : "#24292f";
    var grid = night ? "#343b43" : "#e3e6e9";
    var axis = { gridcolor: grid, zerolinecolor: night ? "#6b747d" : "#9aa3ab", linecolor: grid, automargin: true, exponentformat: "none", separatethousands: true,
                 title: { standoff: 10 } };
    var base = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
      font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif", size: narrow.matches ? 11 : 13, color: text },
      margin: { l: 12, r: 16, t: 12, b: 44 }, hoverlabel: { namelength: -1, align: "left" },
      xaxis: JSON.parse(JSON.stringify(axis)), yaxis: JSON.parse(JSON.stringify(axis)), dragmode: false, separators: ".\u202f"
    };
    var layout = merge(base, JSON.parse(JSON.stringify(spec.layout)));
    if (layout.showlegend) {
      var longest = Math.max.apply(null, spec.data.map(function (trace) { return trace.name.length; }));
      var columns = !narrow.matches ? 4 : longest > 16 ? 1 : 2;
      var rows = narrow.matches || printing ? Math.ceil(spec.data.length / columns) : 0;
      layout.legend = narrow.matches || printing
        ? { orientation: "h", x: 0, yref: "container", y: 0, yanchor: "bottom", font: { size: 10 }, entrywidthmode: "fraction", entrywidth: 1 / columns }
        : { orientation: "v", x: 1.01, y: 1, font: { size: 12 } };
      layout.height += rows * 22;
    }
    // A page of A4 or Letter is about 680 CSS pixels wide between its margins; the screen's width does not count there.
    if (printing) { layout.autosize = false; layout.width = 680; }
    return layout;
  }

  var config = { responsive: true, displaylogo: false, displayModeBar: false, scrollZoom: false };
  function draw() {
    Object.keys(specs).forEach(function (id) {
      var data = JSON.parse(JSON.stringify(specs[id].data));
      if (narrow.matches) { data.forEach(function (trace) { if (trace.type === "box") { trace.jitter = 0.4; } }); }
      window.Plotly.react(id, data, layoutOf(specs[id]), config);
    });
  }

  draw();
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
  window.addEventListener("beforeprint", function () {
    printing = true;
    document.querySelectorAll("details.pair, .table details").forEach(function (each) { each.open = true; });
    draw();
  });
  window.addEventListener("afterprint", function () { printing = false; draw(); });
})();
