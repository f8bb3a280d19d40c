import type { PageRoute } from "../../state/page-route.ts";

export const integrationRoutes: readonly PageRoute[] = [
  {
    path: "/integrations",
    title: "Integrations",
    load: async () => (await import("./integrations-page.tsx")).IntegrationsPage,
  },
  {
    path: "/integrations/:key",
    title: "Integration",
    load: async () => (await import("./integration-page.tsx")).IntegrationPage,
  },
  { path: "/catalog", title: "Catalog", load: async () => (await import("./catalog-page.tsx")).CatalogPage },
  {
    path: "/catalog/:provider",
    title: "New integration",
    load: async () => (await import("./new-integration-page.tsx")).NewIntegrationPage,
  },
  {
    path: "/mcp-server",
    title: "New MCP server",
    load: async () => (await import("./new-mcp-page.tsx")).NewMcpPage,
  },
  {
    path: "/custom-provider",
    title: "New provider",
    load: async () => (await import("../providers/new-provider-page.tsx")).NewProviderPage,
  },
  {
    path: "/providers/:name",
    title: "Provider",
    load: async () => (await import("../providers/provider-page.tsx")).ProviderPage,
  },
];
