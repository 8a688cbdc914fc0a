import type { ComponentChildren } from "preact";
import { Button } from "./Button";
import type { Resource } from "./resource";

export function Loading({ what, onCancel }: { what: string; onCancel?: () => void }) {
  return (
    <section class="state loading" role="status">
      <div class="bar" />
      <p>{what} …</p>
      {onCancel && (
        <Button label="Cancel" onClick={onCancel}>
          Cancel
        </Button>
      )}
    </section>
  );
}

export function Failed({ what, error, onRetry }: { what: string; error: Error; onRetry: () => void }) {
  return (
    <section class="state failed" role="alert">
      <h1>{what}: this did not work</h1>
      <p>{error.message}</p>
      <Button label="Try again" onClick={onRetry}>
        Try again
      </Button>
    </section>
  );
}

/** Shows a resource: its content when there is one (also while it is read again), else where it stands. */
export function Show<T>(props: {
  resource: Resource<T>;
  onRetry: () => void;
  children: (value: T) => ComponentChildren;
}) {
  const { status, what, value, error } = props.resource.state.value;
  if (value !== undefined && status !== "failed") return <>{props.children(value)}</>;
  if (status === "failed" && error) return <Failed what={what} error={error} onRetry={props.onRetry} />;
  if (status === "loading") return <Loading what={what} onCancel={() => props.resource.cancel()} />;
  return null;
}
