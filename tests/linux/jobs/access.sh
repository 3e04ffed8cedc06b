# Who may not: bob without a ticket, alice in bob's folder, sec=sys where only krb5p is allowed.
. /lab/lib.sh

ticket alice
no_ticket bob

alice_writes() { as alice bash -c 'echo mine >/n/alice/hers && [ "$(cat /n/alice/hers)" = mine ] && [ "$(stat -c %U:%G /n/alice/hers)" = alice:alice ]'; }

for flavor in $FLAVORS; do
  check "access: mount $flavor" mounted "$flavor" 1 || continue
  as alice bash -c 'umask 077; echo secret >/n/alice/secret'
  check "access: alice writes in her folder and owns the file $flavor" alice_writes
  refused "access: alice cannot write in bob's folder $flavor" "permission denied" as alice touch /n/bob/from-alice
  refused "access: alice cannot give her file to bob $flavor" "not permitted" as alice chown bob /n/alice/hers
  refused "access: root is nobody here $flavor" "permission denied" touch /n/alice/from-root
  if [ "$flavor" != sys ]; then
    refused "access: bob without a ticket is refused $flavor" "permission denied|key has expired|required key" as bob ls /n/bob
    ticket bob
    # The client remembers for some seconds that bob had no context.
    check "access: bob with a ticket is let in $flavor" bash -c '. /lab/lib.sh; for i in $(seq 30); do as bob touch /n/bob/his && exit; sleep 0.5; done; exit 1'
    refused "access: bob cannot read what alice keeps to herself $flavor" "permission denied" as bob cat /n/alice/secret
    no_ticket bob
  fi
  as alice rm -f /n/alice/hers /n/alice/secret
  unmounted
done

for flavor in sys krb5 krb5i; do
  refused "access: $flavor is refused where only krb5p is allowed" "permission denied|not permitted|access denied" mounted "$flavor" 1 /private
  grep -q ' /n ' /proc/mounts && unmounted
done
if check "access: krb5p is let in where only krb5p is allowed" mounted krb5p 1 /private; then
  check "access: alice writes there" as alice touch /n/alice/private
  unmounted
fi
finish
