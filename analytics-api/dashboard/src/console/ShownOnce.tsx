// A secret just made, which nobody can look up later.

import type { ComponentChildren } from 'preact';
import { Copy } from './Copy';

interface Props {
  /** Name of the secret. */
  label: string;
  secret: string;
  /** Text of the button that ends it. */
  done: string;
  onDone: () => void;
  /** What was made, and what to do with it. */
  children: ComponentChildren;
}

export function ShownOnce({ label, secret, done, onDone, children }: Props) {
  return (
    <div class="prompt done" role="status">
      <p>{children}</p>
      <Copy label={label} text={secret} lines={2} />
      <button type="button" onClick={onDone}>
        {done}
      </button>
    </div>
  );
}
