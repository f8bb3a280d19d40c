import type { ComponentChildren } from "preact";

interface PageFrameProps {
  readonly title: ComponentChildren;
  /** Where the page lies: links to what is above it. */
  readonly above?: readonly (readonly [name: string, link: string])[];
  /** One sentence on what the page is for, or the state of what it shows. */
  readonly lead?: ComponentChildren;
  /** Buttons; at most one of them primary. */
  readonly actions?: ComponentChildren;
  readonly children?: ComponentChildren;
}

/** The head of a page, the same on all. */
export const PageFrame = ({ title, above = [], lead, actions, children }: PageFrameProps) => (
  <>
    <header class="page-head">
      <div class="page-title">
        {above.length > 0 && (
          <nav class="above" aria-label="Above this page">
            {above.map(([name, link]) => (
              <a key={link} href={link}>
                {name}
              </a>
            ))}
          </nav>
        )}
        <h1>{title}</h1>
        {lead !== undefined && <p class="lead">{lead}</p>}
      </div>
      {actions !== undefined && <div class="page-actions">{actions}</div>}
    </header>
    {children}
  </>
);

/** A part of a page with a heading. */
export const Section = ({
  title,
  actions,
  children,
}: {
  readonly title: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}) => (
  <section class="section">
    <div class="section-head">
      <h2>{title}</h2>
      {actions}
    </div>
    {children}
  </section>
);

/** Names with values, in two columns. Rows without a value are left out. */
export const Facts = ({ rows }: { readonly rows: readonly (readonly [name: string, value: ComponentChildren])[] }) => (
  <dl class="facts">
    {rows.map(([name, value]) =>
      value === undefined || value === "" || value === null || value === false ? null : (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ),
    )}
  </dl>
);
