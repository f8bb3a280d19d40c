import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { isLogo } from "./brand.ts";

interface LogoFieldProps {
  readonly logo: string;
  readonly onChange: (logo: string) => void;
  readonly problem: string | undefined;
  readonly isDisabled: boolean;
}

const maxBytes = 32_768;
const types = ["image/png", "image/jpeg", "image/webp", "image/svg+xml"];

/** The logo: an image file, kept as text in the environment. */
export function LogoField({ logo, onChange, problem, isDisabled }: LogoFieldProps) {
  const id = useId();
  const refused = useSignal<string | undefined>(undefined);
  function read(file: File | undefined) {
    if (file === undefined) return;
    if (!types.includes(file.type)) refused.value = "Choose a PNG, JPEG, WebP or SVG image";
    else if (file.size > maxBytes) refused.value = "Choose an image of at most 32 KiB";
    else {
      refused.value = undefined;
      const reader = new FileReader();
      reader.onload = () => onChange(String(reader.result));
      reader.readAsDataURL(file);
    }
  }
  const wrong = refused.value ?? problem;
  return (
    <div class="field">
      <label for={id}>Logo</label>
      <div class="beside">
        {isLogo(logo) && <img class="logo-shown" src={logo} alt="Your logo" />}
        <input
          id={id}
          type="file"
          accept={types.join(",")}
          disabled={isDisabled}
          aria-describedby={`${id}-help`}
          onChange={(event) => read(event.currentTarget.files?.[0])}
        />
        {logo !== "" && (
          <Button isSmall isDisabled={isDisabled} onClick={() => onChange("")}>
            Remove
          </Button>
        )}
      </div>
      <div id={`${id}-help`} class={wrong === undefined ? "field-help" : "field-help bad"}>
        {wrong ?? "PNG, JPEG, WebP or SVG without scripts, at most 32 KiB. Best square."}
      </div>
    </div>
  );
}
