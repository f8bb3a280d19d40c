import { useSignal } from "@preact/signals";
import { Button } from "../../components/button.tsx";
import { Field } from "../../components/field.tsx";
import { caller, keepKey } from "../../state/session.ts";

/** Asks for a key. */
export function SignInPage() {
  const key = useSignal("");
  return (
    <main class="alone sign-in">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          caller.value = undefined;
          keepKey(key.value.trim());
        }}
      >
        <h1>Sign in to Latchkey</h1>
        <Field
          label="Key"
          type="password"
          value={key.value}
          onInput={(value) => (key.value = value)}
          help="A control key, or a key of one environment. `latchkey open` signs you in without one."
          isFocused
        />
        <Button type="submit" kind="primary">
          Sign in
        </Button>
      </form>
    </main>
  );
}
