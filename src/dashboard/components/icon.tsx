/** Line icons on a grid of 16, drawn with the color of the text. */
const drawings = {
  overview: "M2.5 8.5 5.5 5l3 3 5-5.5M2.5 13.5h11",
  integrations: "M2.5 2.5h4.5v4.5h-4.5zM9 2.5h4.5v4.5H9zM2.5 9h4.5v4.5h-4.5zM11.25 9v4.5M9 11.25h4.5",
  connections: "M6.5 9.5 9.5 6.5M7 4.5 8.5 3a3.2 3.2 0 0 1 4.5 4.5L11.5 9M9 11.5 7.5 13A3.2 3.2 0 0 1 3 8.5L4.5 7",
  connect: "M8 2.5v11M2.5 8h11",
  channels:
    "M8 8v.01M5.2 10.8a4 4 0 0 1 0-5.6M10.8 5.2a4 4 0 0 1 0 5.6M3.2 12.8a6.8 6.8 0 0 1 0-9.6M12.8 3.2a6.8 6.8 0 0 1 0 9.6",
  webhooks: "M2.5 3.5h11v9h-11zM2.5 4l5.5 4.75L13.5 4",
  destinations: "M2.5 8h9M8 4l4 4-4 4M13.5 3v10",
  scripts: "M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5",
  requests: "M2.5 5h10M9.5 2l3 3-3 3M13.5 11h-10M6.5 8l-3 3 3 3",
  logs: "M3 3.5h10M3 6.5h10M3 9.5h6.5M3 12.5h8",
  audit: "M8 1.8 13 4v4c0 3.2-2 5.2-5 6.2C5 13.2 3 11.2 3 8V4zM5.8 8l1.6 1.6 2.9-3.1",
  environments: "M10 6.5a2.5 2.5 0 1 0-2.2-3.7A2.5 2.5 0 0 0 8.2 5.8L2.5 11.5V13.5h2v-1.5h1.5v-1.5h1.5L9.2 9",
  system: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5v.01M5 11v.01",
  branding:
    "M8 2.5c3 0 5.5 2.2 5.5 5 0 2-1.6 2.6-3 2.6H9.2c-1 0-1.4.9-.8 1.6.7.8.2 1.8-.9 1.8-2.8 0-5-2.5-5-5.5s2.5-5.5 5.5-5.5zM5.5 7.5v.01M7 5v.01M10 5.2v.01",
  sessions: "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3.5 13.5c.4-2.3 2.2-3.5 4.5-3.5M10 12l1.5 1.5 2.5-3",
  approvals: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2.2 1.6",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  check: "M3 8.5 6.5 12 13 4.5",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.5 10.5 14 14",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  out: "M6.5 3.5h-3v9h9v-3M9 2.5h4.5V7M13.5 2.5 8 8",
  next: "M6 3l5 5-5 5",
  play: "M4.5 3 13 8l-8.5 5z",
  pause: "M5 3v10M11 3v10",
  theme: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
} as const;

export type IconName = keyof typeof drawings;

export const Icon = ({ name }: { readonly name: IconName }) => (
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d={drawings[name]} />
  </svg>
);
