import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { Field } from "../../components/field.tsx";
import { Notice } from "../../components/states.tsx";
import { address, linkTo, navigate } from "../../state/router.ts";
import {
  hasSession,
  leaveToSignIn,
  type SignInLink,
  sessionEnd,
  signIn,
  signInLink,
  waysIn,
} from "../../state/session.ts";

/** Signs in with a key, through the identity provider, or with the link that the page was opened with. */
export function SignInPage() {
  const key = useSignal("");
  const problem = useSignal<string | undefined>(undefined);
  const isBusy = useSignal(false);
  const identityProvider = useSignal<string | undefined>(undefined);

  async function attempt(work: () => Promise<void>) {
    if (isBusy.peek()) return;
    isBusy.value = true;
    problem.value = undefined;
    try {
      await work();
    } catch (error) {
      problem.value = error instanceof Error ? error.message : String(error);
    } finally {
      isBusy.value = false;
    }
  }

  const useLink = (link: SignInLink) =>
    attempt(async () => {
      try {
        await signIn({ link: link.token });
        navigate(link.returnTo);
      } finally {
        signInLink.value = undefined;
      }
    });

  const link = signInLink.value;
  const isAsked = link !== undefined && hasSession.value;
  useEffect(() => {
    document.title = "Sign in · Latchkey";
    waysIn().then(
      (ways) => (identityProvider.value = ways.identityProvider),
      () => {},
    );
  }, []);
  useEffect(() => {
    // Another person may have sent the link: it replaces no session unasked.
    if (link !== undefined && !hasSession.peek()) void useLink(link);
  }, [link]);
  if (isAsked) return <ReplaceSession link={link} isBusy={isBusy.value} useLink={useLink} />;

  const signInWithKey = () =>
    attempt(async () => {
      await signIn({ key: key.value.trim() });
      if (address.value.path === "/sign-in") navigate(linkTo("/"));
    });

  return (
    <main class="alone sign-in">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (key.value.trim() !== "") void signInWithKey();
        }}
      >
        <h1>Sign in to Latchkey</h1>
        {sessionEnd.value !== "" && problem.value === undefined && <Notice>{sessionEnd.value}</Notice>}
        {identityProvider.value !== undefined && (
          <>
            <Button
              kind="primary"
              isBusy={isBusy.value}
              onClick={() => void attempt(() => leaveToSignIn(pageAddress()))}
            >
              Continue with {identityProvider.value}
            </Button>
            <p class="or">or with a key</p>
          </>
        )}
        <Field
          label="Key"
          type="password"
          value={key.value}
          onInput={(value) => (key.value = value)}
          problem={problem.value}
          help={
            <>
              A control key, or the key of one environment. Or run <code>latchkey open</code>, which signs you in.
            </>
          }
          isFocused
        />
        <Button type="submit" kind={identityProvider.value === undefined ? "primary" : "plain"} isBusy={isBusy.value}>
          Sign in
        </Button>
      </form>
    </main>
  );
}

/** The address to return to: the page that was asked for. */
const pageAddress = () => (address.value.path === "/sign-in" ? "/ui/" : `${location.pathname}${location.search}`);

interface ReplaceSessionProps {
  readonly link: SignInLink;
  readonly isBusy: boolean;
  readonly useLink: (link: SignInLink) => Promise<void>;
}

/** Asks before a link replaces the session of this browser. */
const ReplaceSession = ({ link, isBusy, useLink }: ReplaceSessionProps) => (
  <main class="alone sign-in">
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void useLink(link);
      }}
    >
      <h1>Sign in with this link?</h1>
      <p>You are signed in already. Use the link only if you made it, with latchkey open.</p>
      <Button type="submit" kind="primary" isBusy={isBusy}>
        Sign in with the link
      </Button>
      <Button
        onClick={() => {
          signInLink.value = undefined;
          navigate(linkTo("/"));
        }}
      >
        Stay signed in
      </Button>
    </form>
  </main>
);
