// What the built frontend contains of others: a bill of materials (CycloneDX) and the licence texts, written beside
// it. The packages are those of the lock file that are no development tools; the same lock file gives the same bytes.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const here = import.meta.dirname;
const target = resolve(here, process.env.TBPS_STATIC_DIR ?? "../tb_plugin_structure/static");
const lock = JSON.parse(readFileSync(join(here, "package-lock.json"), "utf8"));
const own = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));

const packages = Object.entries(lock.packages)
  .filter(([folder, entry]) => folder !== "" && !entry.dev)
  .map(([folder, entry]) => ({
    folder: join(here, folder),
    name: folder.slice(folder.lastIndexOf("node_modules/") + "node_modules/".length),
    version: entry.version,
    license: entry.license,
    integrity: entry.integrity,
  }))
  .sort((a, b) => (a.name < b.name ? -1 : 1));

const purl = (one) => `pkg:npm/${one.name.replace("@", "%40")}@${one.version}`;

function component(one) {
  const [algorithm, digest] = one.integrity.split("-");
  return {
    type: "library",
    "bom-ref": purl(one),
    name: one.name,
    version: one.version,
    purl: purl(one),
    hashes: [
      { alg: algorithm.replace("sha", "SHA-"), content: Buffer.from(digest, "base64").toString("hex") },
    ],
    licenses: [{ expression: one.license.replace(/^\((.*)\)$/, "$1") }],
  };
}

function licenseText(one) {
  const file = readdirSync(one.folder).find((name) => /^licen[cs]e/i.test(name));
  if (!file) throw new Error(`${one.name} ${one.version} carries no licence text: look at it by hand`);
  return readFileSync(join(one.folder, file), "utf8");
}

const bom = {
  bomFormat: "CycloneDX",
  specVersion: "1.6",
  version: 1,
  metadata: {
    component: { type: "application", "bom-ref": own.name, name: own.name, version: own.version },
  },
  components: packages.map(component),
};
const rule = `${"=".repeat(80)}\n`;
const texts = packages.map(
  (one) => `${rule}${one.name} ${one.version} (${one.license})\n${rule}\n${licenseText(one)}`,
);

if (!existsSync(target)) throw new Error(`${target} is not there: build the frontend first`);
writeFileSync(join(target, "third_party.cdx.json"), `${JSON.stringify(bom, null, 1)}\n`);
writeFileSync(join(target, "third_party_licenses.txt"), texts.join("\n"));
