// Bundles src into dist. The result depends on the sources and package-lock.json alone.
import { build } from "esbuild";
import { copyFileSync, mkdirSync } from "node:fs";

mkdirSync("dist", { recursive: true });
await build({
  entryPoints: ["src/app.tsx", "src/app.css"], outdir: "dist", bundle: true, minify: true,
  format: "esm", target: "es2022", charset: "utf8", legalComments: "none",
});
for (const name of ["index.html", "icon.svg"]) copyFileSync("src/" + name, "dist/" + name);
