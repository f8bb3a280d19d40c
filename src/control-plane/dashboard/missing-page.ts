/** Shown in place of the dashboard when its files were not built. */
export const missingPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Dashboard not built</title></head>
<body><main><h1>The dashboard is not built</h1>
<p>Latchkey runs from its source, and the pages of the dashboard are not there yet. Build them, then reload:</p>
<pre>node bin/run.mjs bin/dashboard.ts</pre>
</main></body></html>
`;
