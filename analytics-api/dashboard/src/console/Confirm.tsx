// A second question: before what can't be taken back, or for the fields that a change needs.

import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type Action, Outcome } from './Action';

interface Props {
  /** Of the first button: "Revoke". */
  label: string;
  /** To what it is done, for those who hear the button's name alone. */
  of: string;
  /** What follows, as a question or statement; or fields that the action needs. */
  children: ComponentChildren;
  /** Of the button that does it: "Revoke this key". */
  yes: string;
  action: Action<[]>;
  /** Sets the fields to what is there. */
  onOpen?: () => void;
}

export function Confirm({ label, of, children, yes, action, onOpen }: Props) {
  const [isOpen, setOpen] = useState(false);
  const begin = useRef<HTMLButtonElement>(null);
  const keep = useRef<HTMLButtonElement>(null);
  const wasOpen = useRef(false);
  // Before anything else can be pressed.
  useLayoutEffect(() => {
    if (isOpen) keep.current?.focus();
    else if (wasOpen.current) begin.current?.focus();
    wasOpen.current = isOpen;
  }, [isOpen]);
  const confirm = async () => {
    if (await action.run()) setOpen(false);
  };
  const open = () => {
    onOpen?.();
    setOpen(true);
  };
  if (!isOpen) {
    return (
      <button ref={begin} type="button" class="quiet" onClick={open} aria-label={`${label}: ${of}`}>
        {label}
      </button>
    );
  }
  return (
    <form
      class="confirm"
      onKeyDown={(event) => event.key === 'Escape' && setOpen(false)}
      onSubmit={(event) => {
        event.preventDefault();
        void confirm();
      }}
    >
      <fieldset>
        <legend class="unseen">
          {label}: {of}
        </legend>
        <div>{children}</div>
        <div class="row">
          <button type="submit" disabled={action.busy}>
            {yes}
          </button>
          <button ref={keep} type="button" class="quiet" onClick={() => setOpen(false)}>
            Leave it as it is
          </button>
        </div>
      </fieldset>
      <Outcome of={action} />
    </form>
  );
}
