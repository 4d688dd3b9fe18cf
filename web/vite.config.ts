import { defineConfig } from "vite";

// Names without hashes: the program embeds these files, and serves them with an etag.
export default defineConfig({
  base: "./",
  build: {
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    rolldownOptions: {
      output: { entryFileNames: "app.js", assetFileNames: "app[extname]", codeSplitting: false },
    },
  },
  server: {
    // npm run dev: the page as it is edited, before a server that runs.
    proxy: Object.fromEntries(["/v1", "/api", "/health"].map((path) => [path, "http://127.0.0.1:8080"])),
  },
});
