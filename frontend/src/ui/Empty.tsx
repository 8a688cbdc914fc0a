import type { ComponentChildren } from "preact";
import { CopyButton } from "./Button";

/** Nothing recorded yet: what to write to see something here. */
export function Empty({
  title,
  code,
  children,
}: {
  title: string;
  code: string;
  children?: ComponentChildren;
}) {
  return (
    <section class="state" aria-label={title}>
      <h1>{title}</h1>
      <p>{children}</p>
      <div class="code">
        <pre>
          <code>{code}</code>
        </pre>
        <CopyButton text={code} label="Copy the code" />
      </div>
      <p class="soft">The tab fills by itself when TensorBoard reloads its data.</p>
    </section>
  );
}
