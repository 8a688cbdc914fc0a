#!/usr/bin/env node
// Writes what `src/wire/message.ts` needs to read a message: the name and the type of each field by its number. The
// types of the messages themselves are those that protoc-gen-es writes; its runtime is then no part of the tabs.
import { ScalarType } from "@bufbuild/protobuf";
import { createEcmaScriptPlugin, runNodeJs } from "@bufbuild/protoplugin";

function typeOf(g, field) {
  if (field.fieldKind === "map") {
    if (field.mapKey !== ScalarType.STRING || field.scalar !== ScalarType.STRING)
      throw new Error(`${field}: only maps of strings to strings are read; see src/wire/message.ts`);
    return '"map"';
  }
  if (field.message) return g.import(nameOf(field.message), moduleOf(field.message.file));
  return `"${field.enum ? "int32" : ScalarType[field.scalar].toLowerCase()}"`;
}

const nameOf = (message) => `${message.name}Fields`;
const moduleOf = (file) => `./${file.name}_fields.js`;

/** A message stands after those that it holds: constants are used by name. */
function inOrder(messages) {
  const done = new Set();
  const visit = (message) => {
    if (done.has(message) || !messages.includes(message)) return;
    for (const { message: inner } of message.fields) if (inner && inner !== message) visit(inner);
    done.add(message);
  };
  messages.forEach(visit);
  return [...done];
}

runNodeJs(
  createEcmaScriptPlugin({
    name: "protoc-gen-fields",
    version: "1",
    generateTs(schema) {
      for (const file of schema.files) {
        const g = schema.generateFile(`${file.name}_fields.ts`);
        g.preamble(file);
        const fieldsOf = g.import("FieldsOf", "./../wire/message.js", true);
        for (const message of inOrder(file.messages)) {
          const type = g.import(message.name, `./${file.name}_pb.js`, true);
          g.print("export const ", nameOf(message), ": ", fieldsOf, "<", type, "> = {");
          for (const field of message.fields) {
            const name = field.localName;
            const repeated = field.fieldKind === "list" ? ', "repeated"' : "";
            g.print("  ", field.number, ': ["', name, '", ', typeOf(g, field), repeated, "],");
          }
          g.print("};");
          g.print();
        }
      }
    },
  }),
);
