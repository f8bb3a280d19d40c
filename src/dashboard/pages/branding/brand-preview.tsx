import { useEffect, useRef } from "preact/hooks";
import { ProviderMark } from "../../components/provider-mark.tsx";
import { type Brand, isColor, isLogo, textOn } from "./brand.ts";

interface BrandPreviewProps {
  readonly brand: Brand;
  readonly theme: "light" | "dark";
}

const usualColors = { light: "#1f4fbf", dark: "#8fb0ff" } as const;

/** A drawing of the connect page with the values of the form, before they are saved. */
export function BrandPreview({ brand, theme }: BrandPreviewProps) {
  const { name, logo, supportUrl } = brand;
  const color = isColor(brand.accentColor) ? brand.accentColor : usualColors[theme];
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    // By script: the page's policy forbids style attributes.
    box.current?.style.setProperty("--brand", color);
    box.current?.style.setProperty("--on-brand", textOn(color));
  }, [color]);
  const title = name === "" ? "Connect Calendar" : `${name} wants to connect your Calendar`;
  return (
    <figure ref={box} class={`brand-preview ${theme}`} aria-label={`Preview, ${theme}`}>
      <div class="brand-card">
        <div class="brand-marks">
          {isLogo(logo) ? (
            <img src={logo} alt="" />
          ) : (
            name !== "" && <ProviderMark name="application" title={name} isLarge />
          )}
          <ProviderMark name="calendar" title="Calendar" categories={["calendar"]} isLarge />
        </div>
        <p class="brand-title">{title}</p>
        <p>You connect it for Ada.</p>
        <p class="brand-lead">
          The application will be able to use the account that you connect. If you did not start this in the
          application, close this page.
        </p>
        <span class="brand-button">Connect</span>
        <p class="brand-lead">You sign in at Calendar and come back here.</p>
        {supportUrl !== "" && <span class="brand-link">Get help</span>}
      </div>
      <figcaption>{theme === "light" ? "Light" : "Dark"}</figcaption>
    </figure>
  );
}
