// A text to take along, with a button that copies it.

import { useRef, useState } from 'preact/hooks';

export function Copy({ label, text, lines = 1 }: { label: string; text: string; lines?: number }) {
  const [state, setState] = useState('');
  const field = useRef<HTMLTextAreaElement>(null);
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      setState('Copied');
    } catch {
      // Browsers refuse it without permission or HTTPS: then the person copies the selection.
      field.current?.select();
      setState('Selected: copy it with the keyboard');
    }
  }
  return (
    <div class="copy">
      <label>
        <span>{label}</span>
        <textarea
          ref={field}
          readOnly
          rows={lines}
          value={text}
          spellcheck={false}
          onFocus={(event) => event.currentTarget.select()}
        />
      </label>
      <button type="button" onClick={copy} aria-label={`Copy: ${label}`}>
        Copy
      </button>
      <span class="note" role="status">
        {state}
      </span>
    </div>
  );
}
