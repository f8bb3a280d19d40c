import { useSignal } from "@preact/signals";
import { Button } from "../components/button.tsx";
import { Dialog } from "../components/dialog.tsx";
import { Field } from "../components/field.tsx";
import { type KeyQuestion, keyQuestion } from "../state/key-question.ts";

/** Asks for the key of one call, over whatever is open. */
export function KeyDialog() {
  const question = keyQuestion.value;
  return question === undefined ? null : <KeyForm question={question} />;
}

function KeyForm({ question }: { readonly question: KeyQuestion }) {
  const key = useSignal("");
  return (
    <Dialog
      title="Enter your key"
      onClose={() => question.answer(undefined)}
      onSubmit={() => key.value.trim() !== "" && question.answer(key.value.trim())}
      actions={
        <>
          <Button onClick={() => question.answer(undefined)}>Cancel</Button>
          <Button type="submit" kind="primary" isDisabled={key.value.trim() === ""}>
            Continue
          </Button>
        </>
      }
    >
      <p>
        Being signed in is not enough for this: it shows secrets, or decides where they go. The key is used for this one
        call and not kept. The audit trail notes secrets that are shown.
      </p>
      <Field
        label="API key"
        type="password"
        value={key.value}
        onInput={(value) => (key.value = value)}
        problem={question.isWrong ? "This key is not known, or it lacks the permission." : undefined}
        help="A key with the scope credentials:read, or a control key."
        isFocused
      />
    </Dialog>
  );
}
