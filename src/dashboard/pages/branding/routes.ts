import type { PageRoute } from "../../state/page-route.ts";

export const brandingRoutes: readonly PageRoute[] = [
  { path: "/branding", title: "Branding", load: async () => (await import("./branding-page.tsx")).BrandingPage },
];
