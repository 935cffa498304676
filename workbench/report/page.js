const specifications = JSON.parse(document.getElementById("specifications").textContent);
for (const [id, specification] of Object.entries(specifications)) {
  const host = document.createElement("div");
  vegaEmbed(host, specification, {renderer: "svg", actions: false, ast: true})
    .then(() => document.getElementById(id).replaceChildren(host));
}
