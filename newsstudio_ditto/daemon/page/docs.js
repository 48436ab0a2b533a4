// Makes the schema readable.

import { call } from "/static/api.js";

const make = (tag, className = "", text = "") => Object.assign(document.createElement(tag), { className, textContent: text });

const typeOf = (schema) => schema.$ref?.split("/").pop()
  ?? schema.anyOf?.map(typeOf).join(" or ")
  ?? (schema.type === "array" ? `list of ${typeOf(schema.items)}` : schema.format ?? schema.type ?? "any");

function table(rows) {
  const box = make("div", "scroll");
  box.tabIndex = 0;
  const body = make("tbody");
  for (const cells of rows) {
    const row = make("tr");
    cells.forEach((cell, index) => row.append(make("td", index === cells.length - 1 ? "wrap" : "", cell)));
    body.append(row);
  }
  const whole = make("table");
  whole.append(body);
  box.append(whole);
  return box;
}

function fieldsOf(schema, document_) {
  const whole = schema.$ref ? document_.components.schemas[schema.$ref.split("/").pop()] : schema;
  const required = new Set(whole.required ?? []);
  return Object.entries(whole.properties ?? {}).map(([name, field]) => [name, typeOf(field), required.has(name) ? "required" : "", field.description ?? ""]);
}

function show(method, path, operation, document_) {
  const section = make("section");
  section.append(make("h2", "", `${method.toUpperCase()} ${path}`), make("p", "", (operation.description ?? operation.summary).replaceAll("``", "")));
  const inputs = (operation.parameters ?? []).map((one) => [one.name, typeOf(one.schema), one.required ? "required" : one.in, one.description ?? ""]);
  for (const media of Object.values(operation.requestBody?.content ?? {})) inputs.push(...fieldsOf(media.schema, document_));
  if (inputs.length) section.append(table(inputs));
  const answers = Object.entries(operation.responses).map(([status, answer]) => [
    status, Object.entries(answer.content ?? {}).map(([type, media]) => (media.schema && Object.keys(media.schema).length ? typeOf(media.schema) : type)).join(", "), answer.description]);
  const details = make("details");
  details.append(make("summary", "", "Answers"), table(answers));
  section.append(details);
  return section;
}

const schema = await call("/openapi.json");
for (const [path, methods] of Object.entries(schema.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    document.getElementById("operations").append(show(method, path, operation, schema));
  }
}
