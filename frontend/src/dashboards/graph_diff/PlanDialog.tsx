import { useEffect, useRef } from "preact/hooks";
import { Button, CopyButton } from "../../ui/Button";
import { download } from "../../ui/download";
import { adoptStyles } from "../../ui/styles";
import type { DiffState } from "./diff_state";
import css from "./plan_dialog.css?inline";
import { planCall, planCommand, planText } from "./plan_file";

adoptStyles(css);

/** How the pins and policies in force get into the run: the server of TensorBoard writes nothing. */
export function PlanDialog({ state }: { state: DiffState }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const sides = state.comparison.value?.tree.sides;
  if (!sides?.student) return null;
  const intent = state.session.intent.value;
  const models = { teacher: sides.teacher.name, student: sides.student.name };
  const file = `${models.teacher}_vs_${models.student}_plan.json`.replace(/[^\w.-]+/g, "_");
  const command = planCommand(file, sides.student.tables.address.run);
  const call = planCall(models, intent);
  const pins = Object.keys(intent.pins).length;
  return (
    <dialog
      ref={dialog}
      class="help plan"
      aria-label="Write pins and policies into the run"
      onClose={() => {
        state.planOpen.value = false;
      }}
    >
      <h2>Write {pins === 1 ? "one pin" : `${pins} pins`} and the policy into the run</h2>
      <p>
        All tabs then start from this plan, for everyone who opens the run. TensorBoard's server writes
        nothing, so it is done where the run lies:
      </p>
      <ol>
        <li>
          <Button
            label="Save the pins and policies as JSON"
            onClick={() => download(file, planText(models, intent), "application/json")}
          >
            Save {file}
          </Button>
        </li>
        <li>
          With your log directory for LOGDIR:
          <Line text={command} label="Copy the command" />
        </li>
      </ol>
      <p>Or in the training script, with the run's writer:</p>
      <Line text={call} label="Copy the line of Python" />
      <Button label="Close" onClick={() => dialog.current?.close()}>
        Close
      </Button>
    </dialog>
  );
}

function Line({ text, label }: { text: string; label: string }) {
  return (
    <div class="code">
      <pre>
        <code>{text}</code>
      </pre>
      <CopyButton text={text} label={label} />
    </div>
  );
}
