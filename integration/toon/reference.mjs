// Has the reference implementation of TOON encode and decode.
//
//   node reference.mjs DIR <requests
//
// DIR holds node_modules. A request is a line of JSON: {"json", "toon", "indent",
// "delimiter"}, the first two being texts. The answer is one too: toon is what
// the reference makes of json, and json what it reads in toon; error says why it
// cannot.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(`${process.argv[2]}/`));
const { decode, encode } = await import(pathToFileURL(require.resolve("@toon-format/toon")));

for await (const line of createInterface({ input: process.stdin })) {
  const { json, toon, indent, delimiter } = JSON.parse(line);
  const answer = {};
  try {
    answer.toon = encode(JSON.parse(json), { indent, delimiter });
    answer.json = JSON.stringify(decode(toon, { indent }));
  } catch (e) {
    answer.error = String(e);
  }
  console.log(JSON.stringify(answer));
}
