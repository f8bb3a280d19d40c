/** A text of a provider's description: `**Name**` is strong, and text between backticks is code. Nothing else. */
export const MarkedText = ({ text }: { readonly text: string }) => (
  <>
    {text.split(/(\*\*[^*]+\*\*|`[^`]+`)/).map((part, i) => {
      if (i % 2 === 0) return part;
      return part.startsWith("`") ? (
        <code key={i}>{part.slice(1, -1)}</code>
      ) : (
        <strong key={i}>{part.slice(2, -2)}</strong>
      );
    })}
  </>
);
